Feature: Expressions Without Bound
  What could run or grow without end is evaluated by a worker with limits; the node goes on.

  Scenario: A recursion that ends has a value
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: factorial, version: '1.0.0' }
    do:
      - compute:
          set: { factorial: '${ def f: if . <= 1 then 1 else . * (. - 1 | f) end; .number | f }' }
    """
    And given the workflow input is:
    """yaml
    number: 10
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    factorial: 3628800
    """

  Scenario: A recursion that does not end is an expression error
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: endless, version: '1.0.0' }
    do:
      - compute:
          set: { never: '${ def f: 1 + f; f }' }
    """
    When the workflow is executed
    Then the workflow should fault
    And the workflow error should have a 'type' property with value:
    """yaml
    https://open-workflow-specification.org/spec/1.0.0/errors/expression
    """
    And the workflow error should have a 'instance' property with value:
    """yaml
    /do/0/compute
    """
