"""Prefix cache by content: a radix tree of the blocks that are cached, and the order in which unused ones are taken.

What the tokens of a request are is known by where they are from: the system prompt of a class, the conversation of a session,
nothing that others have. Two requests share the blocks before the first that differs, as engines find by the hashes of blocks
(vLLM) or by the tokens themselves (SGLang).

Blocks that no running request uses stay cached until they are taken. They are taken in the order in which they became free,
of one request from its end on; so no block is taken before those that follow it. Blocks without content (a last block that is
not full) wait in the same queue in vLLM, and are taken first in SGLang.

Source: vLLM 0.19, vllm/v1/core/block_pool.py (BlockPool.free_blocks, get_new_blocks), kv_cache_manager.py
(get_computed_blocks); Zheng et al. 2024 (SGLang), arXiv:2312.07104, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace

Content = tuple[tuple[int, int], ...]
"""Pieces of a sequence in their order: the number of the text that a piece is from, and the token at which it ends. The last
goes on as long as the sequence does."""

ENDLESS = 1 << 60
"""End of a last piece."""
_IN_USE = -2
_FRESH = -1
_Entry = tuple[int, int, int, "Node | None", int]
"""When it became free, minus its first block, a number of its own, the node (None: no content), its blocks (of no content)."""


class Node:
    """Blocks `begin` to `end` of all sequences whose content leads here.

    Args:
        parent: the node before it; None: of the root.
        key: text of its tokens, and the token of the sequence at which that text begins.
        begin: its first block.
        end: the block after its last.
        num_users: running requests that use it.
    """

    __slots__ = ("begin", "children", "end", "key", "num_users", "parent", "stamp")

    def __init__(self, parent: Node | None, key: tuple[int, int], begin: int, end: int, num_users: int = 0) -> None:
        self.parent, self.key, self.begin, self.end, self.num_users = parent, key, begin, end, num_users
        self.children: dict[tuple[int, int], Node] = {}
        self.stamp = _IN_USE
        """When it became free."""


class PrefixCache:
    """Which blocks of a KV cache hold what, and which of the free ones are taken next.

    How many blocks are free is counted by the KV cache; blocks that it has handed out since are taken from the queue when
    someone looks (`settle`).

    Args:
        num_blocks: of the KV cache.
        block_size: tokens per block.
        uncached_first: blocks without content are taken before any that is cached.
    """

    __slots__ = ("_entries", "_queue", "_serial", "_stamp", "block_size", "num_queued", "num_shared", "root", "uncached_first")

    def __init__(self, num_blocks: int, block_size: int, *, uncached_first: bool = False) -> None:
        self.block_size, self.uncached_first = block_size, uncached_first
        self.root = Node(None, (0, 0), 0, 0)
        self._queue: list[_Entry] = [(_FRESH, 0, 0, None, num_blocks)]
        self._serial = self._stamp = 0
        self.num_queued = num_blocks
        """Free blocks, as far as the queue knows."""
        self.num_shared = 0
        """Blocks that users of a node have in common, counted once for each user but one."""

    # Which blocks of a sequence are cached

    def _walk(self, content: Content, limit: int) -> Iterator[tuple[Node, int]]:
        """Yield the nodes that the first `limit` blocks of a content lead through, and until which block they agree."""
        node, block, begin = self.root, 0, 0
        for text, end_token in content:
            end = min(end_token // self.block_size, limit)
            while block < end:
                child = node.children.get((text, begin))
                if child is None:
                    return
                block = min(child.end, end)
                yield child, block
                if block < child.end:
                    return
                node = child
            begin = end_token

    def match(self, content: Content, limit: int) -> tuple[int, int]:
        """Return how many of the first `limit` blocks are cached, and how many of those running requests use."""
        num_cached = num_used = 0
        for node, until in self._walk(content, limit):
            num_cached = until
            if node.num_users:
                num_used = until
        return num_cached, num_used

    def acquire(self, content: Content, num_blocks: int) -> tuple[Node | None, int]:
        """Use the first `num_blocks` blocks of a content, all of which are cached.

        Returns:
            The last node of them (None: `num_blocks` is 0), and how many of the blocks were free.
        """
        last, until = None, 0
        for last, until in self._walk(content, num_blocks):  # noqa: B007 - the last is wanted
            pass
        if last is None:
            return None, 0
        if until < last.end:
            last = self._split(last, until)
        num_taken, node = 0, last
        while node.parent is not None:
            length = node.end - node.begin
            if node.num_users:
                self.num_shared += length
            else:
                num_taken += length
                node.stamp = _IN_USE
            node.num_users += 1
            node = node.parent
        self.num_queued -= num_taken
        return last, num_taken

    def extend(self, content: Content, node: Node | None, until: int) -> Node | None:
        """Register blocks of a running request, up to block `until`, that are not cached yet.

        Where another request has cached the same meanwhile, the rest stays unregistered.

        Args:
            content: of the request.
            node: the last node that it uses; None: none.
            until: the block after the last that is registered.

        Returns:
            The last node that it uses now.
        """
        at, begin = node or self.root, 0
        block = at.end
        for text, end_token in content:
            end = min(end_token // self.block_size, until)
            if block < end:
                key = (text, begin)
                if key in at.children:
                    break
                if at.key == key and at.num_users == 1 and not at.children and at.parent is not None:
                    at.end = end
                else:
                    child = Node(at, key, block, end, 1)
                    at.children[key] = child
                    at = child
                block = end
            begin = end_token
        return None if at is self.root else at

    def release(self, content: Content | None, node: Node | None, num_blocks: int, num_full: int) -> int:
        """Free the blocks of a request that leaves. Full ones stay cached where it has a content.

        Args:
            content: of the request; None: no other request will look for its blocks.
            node: the last node that it uses; None: none.
            num_blocks: blocks that it has.
            num_full: the first of them, which are full.

        Returns:
            How many blocks are free that were not.
        """
        self._stamp += 1
        own = num_blocks - (0 if node is None else node.end)  # not in a node
        num_free = cached = 0
        if content is not None and num_full > (0 if node is None else node.end):
            cached = self._insert(content, num_full)
        if own > cached:
            self._push(None, own - cached)
        num_free += own
        while node is not None and node.parent is not None:
            length = node.end - node.begin
            node.num_users -= 1
            if node.num_users:
                self.num_shared -= length
            else:
                num_free += length
                self._push(node)
            node = node.parent
        self.num_queued += num_free
        return num_free

    def withdraw(self, node: Node | None, until: int) -> Node | None:
        """Take back blocks from `until` on that a running request has registered and not computed, unless others use them.

        Returns:
            The last node that it uses now.
        """
        while node is not None and node.parent is not None and node.end > until and node.num_users == 1 and not node.children:
            if node.begin < until:
                node.end = until
                break
            del node.parent.children[node.key]
            node = node.parent
        return None if node is self.root else node

    # The queue of free blocks

    @property
    def queue_length(self) -> int:
        """Entries of the queue, void ones included."""
        return len(self._queue)

    def compact(self) -> int:
        """Drop the void entries of the queue, where nothing is taken that would; returns how many are left."""
        self._queue = [entry for entry in self._queue if entry[3] is None or entry[3].stamp == entry[0]]
        heapify(self._queue)
        return len(self._queue)

    def settle(self, num_free: int) -> None:
        """Take blocks from the front of the queue until it has `num_free`, unless it has fewer: a router has looked ahead."""
        queue, left = self._queue, self.num_queued - num_free
        if left <= 0:
            return
        self.num_queued = num_free
        while left > 0:
            stamp, order, serial, node, count = queue[0]
            if node is None:
                if count > left:
                    heapreplace(queue, (stamp, order, serial, None, count - left))
                    return
                heappop(queue)
                left -= count
            elif node.stamp != stamp:  # it is in use again, or gone
                heappop(queue)
            else:
                length = node.end - node.begin
                if length > left:
                    node.end -= left
                    return
                heappop(queue)
                left -= length
                node.stamp = _IN_USE
                assert node.parent is not None  # noqa: S101 - the root is never in the queue
                del node.parent.children[node.key]

    def _push(self, node: Node | None, count: int = 0) -> None:
        """Append free blocks: those of a node, or a number without content."""
        self._serial += 1
        if node is None:
            stamp = _FRESH if self.uncached_first else self._stamp
            heappush(self._queue, (stamp, -ENDLESS, self._serial, None, count))
        else:
            node.stamp = self._stamp
            heappush(self._queue, (self._stamp, -node.begin, self._serial, node, 0))

    def _insert(self, content: Content, num_full: int) -> int:
        """Cache the first blocks of a content that leaves; returns how many were not cached before."""
        at, until = self.root, 0
        for at, until in self._walk(content, num_full):  # noqa: B007 - the last is wanted
            pass
        if until < at.end:
            at = self._split(at, until)
        node = at
        while node.parent is not None:  # none is taken before those that follow it
            if not node.num_users:
                self._push(node)
            node = node.parent
        begin, block = 0, at.end
        for text, end_token in content:
            end = min(end_token // self.block_size, num_full)
            if block < end:
                child = Node(at, (text, begin), block, end)
                at.children[child.key] = child
                self._push(child)
                at, block = child, end
            begin = end_token
        return block - until

    def _split(self, node: Node, at: int) -> Node:
        """Divide a node before block `at`; returns the first part. The object itself is the second: its users end there."""
        assert node.parent is not None  # noqa: S101 - the root has no blocks
        upper = Node(node.parent, node.key, node.begin, at, node.num_users)
        node.parent.children[node.key] = upper
        upper.children[node.key] = node
        node.parent, node.begin = upper, at
        if node.stamp != _IN_USE:
            stamp, self._stamp = self._stamp, node.stamp
            self._push(upper)
            self._push(node)
            self._stamp = stamp
        return upper
