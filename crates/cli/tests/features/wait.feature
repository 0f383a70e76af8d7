Feature: Wait Task
  Waiting takes time and changes nothing.

  Scenario: Wait passes its input on
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: wait, version: '1.0.0' }
    do:
      - setShape:
          set: { shape: circle }
      - pause:
          wait: { milliseconds: 150 }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    shape: circle
    """
    And the workflow should take at least 150 milliseconds
    And pause should run last

  Scenario: Wait takes an ISO 8601 duration
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: wait-iso, version: '1.0.0' }
    do:
      - pause:
          wait: PT0.1S
    """
    When the workflow is executed
    Then the workflow should complete
    And the workflow should take at least 100 milliseconds
