Feature: Listen And Emit
  Events reach whoever listens, from outside or from another branch.

  Scenario: Listen to one event from outside
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: listen-one, version: '1.0.0' }
    do:
      - paid:
          listen:
            to:
              one:
                with: { type: com.example.paid.v1 }
          output: { as: '${ .[0] }' }
    """
    And given the event is published:
    """yaml
    specversion: '1.0'
    id: event-0
    source: https://shop.example
    type: com.example.other.v1
    data: { amount: 1 }
    """
    And given the event is published:
    """yaml
    specversion: '1.0'
    id: event-1
    source: https://shop.example
    type: com.example.paid.v1
    data: { amount: 12 }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    amount: 12
    """

  Scenario: One branch emits what another listens to
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: listen-emit, version: '1.0.0' }
    do:
      - both:
          fork:
            branches:
              - hear:
                  listen:
                    to:
                      one:
                        with: { type: com.example.said.v1 }
              - say:
                  emit:
                    event:
                      with:
                        source: https://here.example
                        type: com.example.said.v1
                        data: { word: hello }
                  output: { as: '${ .type }' }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    - - word: hello
    - com.example.said.v1
    """

  Scenario: Listen to all of several events, in any order
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: default, name: listen-all, version: '1.0.0' }
    do:
      - gather:
          listen:
            to:
              all:
                - with: { type: com.example.one.v1 }
                - with: { type: com.example.two.v1 }
          output: { as: '${ map(.n) | sort }' }
    """
    And given the event is published:
    """yaml
    { specversion: '1.0', id: b, source: https://x.example, type: com.example.two.v1, data: { n: 2 } }
    """
    And given the event is published:
    """yaml
    { specversion: '1.0', id: a, source: https://x.example, type: com.example.one.v1, data: { n: 1 } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    [ 1, 2 ]
    """
