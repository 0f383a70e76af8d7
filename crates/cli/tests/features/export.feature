Feature: Export
  What a task exports becomes the context that later tasks see.

  Scenario: The context outlives the output
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: export, version: '1.0.0' }
    do:
      - pick:
          set: { color: red, size: 3 }
          export: { as: '${ { picked: .color } }' }
      - forget:
          set: { nothing: left }
      - recall:
          set: { color: '${ $context.picked }' }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    color: red
    """

  Scenario: An export may build on the context
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: export-more, version: '1.0.0' }
    do:
      - one:
          set: { value: 1 }
          export: { as: '${ $context + { one: .value } }' }
      - two:
          set: { value: 2 }
          export: { as: '${ $context + { two: .value } }' }
      - all:
          set: '${ $context }'
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    one: 1
    two: 2
    """
