Feature: Scopes
  A scope is undone by itself; what was done outside of it stays.

  Scenario: A handler undoes its own scope only
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: scope, version: '1.0.0' }
    do:
      - before:
          call: http
          with: { method: post, endpoint: https://service.example/do/before, body: {} }
          metadata:
            outlast:
              class: compensatable
              compensation:
                do:
                  - undoBefore:
                      call: http
                      with: { method: post, endpoint: https://service.example/undo/before, body: {} }
      - trip:
          try:
            - book:
                call: http
                with: { method: post, endpoint: https://service.example/do/book, body: {} }
                metadata:
                  outlast:
                    class: compensatable
                    compensation:
                      do:
                        - unbook:
                            call: http
                            with: { method: post, endpoint: https://service.example/undo/book, body: {} }
            - explode:
                raise:
                  error: { type: https://example.com/errors/broken, status: 418, title: Broken }
          catch:
            do:
              - undoTrip:
                  call: compensate:1.0.0@default
                  with: { scope: trip }
              - goOn:
                  set: { trip: cancelled }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    trip: cancelled
    """
    And book should be compensated
    And before should not be compensated
    And the service should have performed undo book exactly once
    And the service should have performed undo before exactly 0 times
