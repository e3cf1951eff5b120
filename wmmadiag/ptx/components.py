"""Strongly connected components of a graph."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar

_Node = TypeVar("_Node", bound=Hashable)


def components(graph: Mapping[_Node, Collection[_Node]]) -> dict[_Node, int]:
    """Node → number of its component; `graph`: node → those that follow it (Tarjan 1972, without recursion)."""
    index: dict[_Node, int] = {}
    low: dict[_Node, int] = {}
    component: dict[_Node, int] = {}
    stack: list[_Node] = []
    for root in graph:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        work = [(root, iter(graph[root]))]
        while work:
            node, following = work[-1]
            for target in following:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    work.append((target, iter(graph[target])))
                    break
                if target not in component:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    while node not in component:
                        component[stack.pop()] = index[node]
    return component
