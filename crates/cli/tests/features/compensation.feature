Feature: Compensation
  What was done is undone in reverse order when the run as a whole fails.

  Scenario: An uncaught error rolls the run back
    Given a workflow with definition:
    """yaml
    document:
      dsl: '1.0.3'
      namespace: default
      name: roll-back
      version: '1.0.0'
      metadata: { outlast: { version: '1.0', onFault: compensate } }
    use:
      functions:
        release:
          call: http
          with: { method: post, endpoint: https://service.example/undo/reserve, body: { of: '${ .number }' } }
        refund:
          call: http
          with: { method: post, endpoint: https://service.example/undo/pay, body: { of: '${ .number }' } }
    do:
      - reserve:
          call: http
          with: { method: post, endpoint: https://service.example/do/reserve, body: {} }
          metadata:
            outlast: { class: compensatable, compensation: { use: release, capture: '${ { number: .number } }' } }
      - pay:
          call: http
          with: { method: post, endpoint: https://service.example/do/pay, body: {} }
          metadata:
            outlast: { class: compensatable, compensation: { use: refund, capture: '${ { number: .number } }' } }
      - explode:
          raise:
            error: { type: https://example.com/errors/broken, status: 418, title: Broken }
    """
    When the workflow is executed
    Then the workflow should be compensated
    And the workflow error should have a 'status' property with value:
    """yaml
    418
    """
    And pay should be compensated before reserve
    And the service should have performed pay exactly once
    And the service should have performed undo pay exactly once
    And the service should have performed undo reserve exactly once

  Scenario: A run that completes undoes nothing
    Given a workflow with definition:
    """yaml
    document:
      dsl: '1.0.3'
      namespace: default
      name: no-roll-back
      version: '1.0.0'
      metadata: { outlast: { version: '1.0', onFault: compensate } }
    do:
      - reserve:
          call: http
          with: { method: post, endpoint: https://service.example/do/reserve, body: {} }
          metadata:
            outlast:
              class: compensatable
              compensation:
                do:
                  - release:
                      call: http
                      with: { method: post, endpoint: https://service.example/undo/reserve, body: {} }
    """
    When the workflow is executed
    Then the workflow should complete
    And reserve should not be compensated
    And the service should have performed undo reserve exactly 0 times
