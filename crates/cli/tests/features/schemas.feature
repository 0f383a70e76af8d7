Feature: Schemas
  Data that does not fit its schema is a validation error where it is found.

  Scenario: The input of the workflow does not fit
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: schema-input, version: '1.0.0' }
    input:
      schema:
        format: json
        document: { type: object, required: [ order ] }
    do:
      - accept:
          set: { accepted: true }
    """
    And given the workflow input is:
    """yaml
    other: 1
    """
    When the workflow is executed
    Then the workflow should fault
    And the workflow error should have a 'status' property with value:
    """yaml
    400
    """
    And the workflow error should have a 'type' property with value:
    """yaml
    https://open-workflow-specification.org/spec/1.0.0/errors/validation
    """
    And accept should run 0 times

  Scenario: The input of the workflow fits
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: schema-input, version: '1.0.0' }
    input:
      schema:
        format: json
        document: { type: object, required: [ order ] }
    do:
      - accept:
          set: { accepted: '${ .order }' }
    """
    And given the workflow input is:
    """yaml
    order: 7
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    accepted: 7
    """

  Scenario: The output of a task does not fit
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: schema-output, version: '1.0.0' }
    do:
      - count:
          set: { count: many }
          output:
            schema:
              format: json
              document: { type: object, properties: { count: { type: integer } } }
    """
    When the workflow is executed
    Then the workflow should fault
    And the workflow error should have a 'instance' property with value:
    """yaml
    /do/0/count
    """
