Feature: Timeouts
  What takes too long is stopped with an error of its own type.

  Scenario: A task that takes too long can be caught
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: timeout-task, version: '1.0.0' }
    do:
      - attempt:
          try:
            - pause:
                wait: { seconds: 30 }
                timeout: { after: { milliseconds: 50 } }
          catch:
            errors:
              with: { type: https://open-workflow-specification.org/spec/1.0.0/errors/timeout }
            do:
              - note:
                  set: { status: '${ $error.status }', instance: '${ $error.instance }' }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    status: 408
    instance: /do/0/attempt/try/0/pause
    """

  Scenario: A workflow that takes too long faults
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: timeout-workflow, version: '1.0.0' }
    timeout: { after: { milliseconds: 50 } }
    do:
      - pause:
          wait: { seconds: 30 }
    """
    When the workflow is executed
    Then the workflow should fault
    And the workflow error should have a 'status' property with value:
    """yaml
    408
    """
