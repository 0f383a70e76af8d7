Feature: Sub-workflows
  A workflow runs another one and goes on with its output.

  Scenario: The output of the child is the output of the task
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: parent, version: '1.0.0' }
    do:
      - double:
          run:
            workflow: { namespace: default, name: child, version: '1.0.0', input: { number: '${ .number }' } }
      - wrap:
          set: { answer: '${ .number }' }
    """
    And a registered workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: child, version: '1.0.0' }
    do:
      - double:
          set: { number: '${ .number * 2 }' }
    """
    And given the workflow input is:
    """yaml
    number: 21
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    answer: 42
    """

  Scenario: An error of the child can be caught by the parent
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: parent, version: '1.0.0' }
    do:
      - attempt:
          try:
            - child:
                run:
                  workflow: { namespace: default, name: child, version: latest }
          catch:
            do:
              - note:
                  set: { status: '${ $error.status }' }
    """
    And a registered workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: child, version: '1.0.0' }
    do:
      - fail:
          raise:
            error: { type: https://example.com/errors/broken, status: 418, title: Broken }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    status: 418
    """

  Scenario: Who does not wait goes on with its own input
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: parent, version: '1.0.0' }
    do:
      - start:
          run:
            await: false
            workflow: { namespace: default, name: child, version: '1.0.0', input: { number: 7 } }
      - wrap:
          set: { kept: '${ . }' }
    """
    And a registered workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: child, version: '1.0.0' }
    do:
      - double:
          set: { number: '${ .number * 2 }' }
    """
    And given the workflow input is:
    """yaml
    number: 21
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    kept: { number: 21 }
    """
