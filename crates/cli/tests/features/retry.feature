Feature: Retry
  A failed task is tried again as its policy says, and what was asked for is done once.

  Scenario: A service that fails twice succeeds at the third attempt
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: retry, version: '1.0.0' }
    do:
      - payment:
          try:
            - pay:
                call: http
                with:
                  method: post
                  endpoint: https://service.example/do/pay?failures=2
                  body: { amount: 5 }
          catch:
            errors: { with: { status: 503 } }
            retry:
              delay: { milliseconds: 10 }
              backoff: { exponential: {} }
              limit: { attempt: { count: 4 } }
          output: { as: '${ { paid: .name } }' }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    paid: pay
    """
    And payment should be retried 2 times
    And the service should have performed pay exactly once
    And the workflow should take at least 30 milliseconds

  Scenario: The handler runs when retries are used up
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: retry-exhausted, version: '1.0.0' }
    do:
      - payment:
          try:
            - pay:
                call: http
                with: { method: post, endpoint: 'https://service.example/do/pay?failures=9', body: {} }
          catch:
            retry:
              delay: { milliseconds: 1 }
              limit: { attempt: { count: 2 } }
            do:
              - giveUp:
                  set: { status: '${ $error.status }' }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    status: 503
    """
    And payment should be retried 2 times
    And the service should have performed pay exactly 0 times
