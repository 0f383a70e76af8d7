Feature: Fork Task Without Compete
  All branches run; their outputs come in the order in which the branches are written.

  Scenario: Outputs come in order of the branches
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: fork-all, version: '1.0.0' }
    do:
      - both:
          fork:
            branches:
              - slow:
                  do:
                    - pause: { wait: { milliseconds: 60 } }
                    - sayOne: { set: { number: 1 } }
              - fast:
                  set: { number: 2 }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    - number: 1
    - number: 2
    """
    And fast should run before sayOne

  Scenario: An uncaught error in a branch ends the others
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: fork-fault, version: '1.0.0' }
    do:
      - both:
          fork:
            branches:
              - slow:
                  do:
                    - pause: { wait: { seconds: 30 } }
                    - never: { set: { number: 1 } }
              - broken:
                  raise:
                    error: { type: https://example.com/errors/broken, status: 418, title: Broken }
    """
    When the workflow is executed
    Then the workflow should fault
    And the workflow error should have a 'status' property with value:
    """yaml
    418
    """
    And never should run 0 times
