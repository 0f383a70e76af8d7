Feature: Conditional Tasks
  A task whose `if` does not hold does not run and passes its input on.

  Scenario: A task is skipped
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: if, version: '1.0.0' }
    do:
      - greet:
          if: ${ .age >= 18 }
          set: { greeting: welcome }
      - finish:
          set: '${ . + { done: true } }'
    """
    And given the workflow input is:
    """yaml
    age: 17
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    age: 17
    done: true
    """
    And greet should be skipped

  Scenario: A task runs because its condition holds
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: if, version: '1.0.0' }
    do:
      - greet:
          if: ${ .age >= 18 }
          set: { greeting: welcome }
    """
    And given the workflow input is:
    """yaml
    age: 18
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    greeting: welcome
    """
    And greet should run once
