"""Checks files in Model Explorer's JSON graph format, as its page reads them.

Of each file: the fields have the types that the format gives them, ids are unique, edges come from
outputs that there are and inputs are numbered, and links lead to graphs and nodes. Prints what the
first graph is made of, or what is wrong and exits with 1.
"""
import json
import sys


def require(condition, *what):
    if not condition:
        sys.exit("not Model Explorer's format: " + " ".join(map(str, what)))


def check_keys(what, of, required, optional=()):
    require(isinstance(of, dict), what, "is no object:", of)
    require(set(required) <= set(of), what, "lacks", set(required) - set(of))
    unknown = set(of) - set(required) - set(optional)
    require(not unknown, what, "has unknown fields", unknown)


def check_text(what, *texts):
    for text in texts:
        require(isinstance(text, str), what, "is no text:", text)


def check_attrs(what, attrs, nodes=None):
    for attr in attrs:
        check_keys(what, attr, ["key", "value"])
        check_text(what, attr["key"])
        value = attr["value"]
        if nodes is not None and isinstance(value, dict):
            check_keys(what, value, ["type", "nodeIds"])
            require(value["type"] == "node_ids", what, value)
            for node in value["nodeIds"]:
                require(node in nodes, what, "links to", node, "which there is not")
        else:
            check_text(what, value)


def check_node(node, nodes, graphs, groups):
    what = "node " + node["id"]
    check_attrs(what, node["attrs"], nodes)
    for part in node["namespace"].split("/"):
        require(part != "" or node["namespace"] == "", what, "is in a group without a name")
    require(node["id"] not in groups, what, "has the id of a group")
    for index, output in enumerate(node["outputsMetadata"]):
        check_keys(what, output, ["id", "attrs"])
        require(output["id"] == str(index), what, "numbers its outputs", output["id"])
        check_attrs(what, output["attrs"])
        require(output["attrs"][0]["key"] == "tensor_shape", what, "has an output of no shape")
    for index, edge in enumerate(node["incomingEdges"]):
        check_keys(what, edge, ["sourceNodeId", "sourceNodeOutputId", "targetNodeInputId"])
        source = edge["sourceNodeId"]
        require(source in nodes, what, "reads", source, "which there is not")
        require(edge["targetNodeInputId"] == str(index), what, "numbers its inputs")
        outputs = [output["id"] for output in nodes[source]["outputsMetadata"]]
        require(edge["sourceNodeOutputId"] in outputs, what, "reads no output of", source)
    for graph in node.get("subgraphIds", []):
        require(graph in graphs, what, "opens", graph, "which there is not")


def check(name):
    with open(name, encoding="utf-8") as file:
        collection = json.load(file)
    check_keys("the file", collection, ["label", "graphs"])
    check_text("the label", collection["label"])
    graphs = [graph["id"] for graph in collection["graphs"]]
    require(len(set(graphs)) == len(graphs), "two graphs have one id:", graphs)
    for graph in collection["graphs"]:
        check_keys("a graph", graph, ["id", "nodes"], ["groupNodeAttributes"])
        nodes = {}
        for node in graph["nodes"]:
            check_keys("a node", node, ["id", "label", "namespace", "attrs", "incomingEdges",
                                        "outputsMetadata"], ["subgraphIds"])
            check_text("a node", node["id"], node["label"], node["namespace"])
            require(node["id"] not in nodes, "two nodes have the id", node["id"])
            nodes[node["id"]] = node
        groups = {node["namespace"] for node in graph["nodes"]}
        for node in graph["nodes"]:
            check_node(node, nodes, graphs, groups)
        for facts in graph.get("groupNodeAttributes", {}).values():
            check_text("a fact", *facts.values())
    first = collection["graphs"][0]
    edges = sum(len(node["incomingEdges"]) for node in first["nodes"])
    groups = sorted({node["namespace"].split("/")[0] for node in first["nodes"]})
    print(f"{len(graphs)} graphs; {len(first['nodes'])} nodes, {edges} edges in {groups}")


for path in sys.argv[1:]:
    check(path)
