package boltstore

import "container/heap"

// heapPlace is where a row stands in one heap.
type heapPlace struct {
	key   int64
	index int // plus one; 0: not in it
}

// rowHeap is a heap of rows. A row can be in several heaps at a time, in each under the heap's own slot.
type rowHeap struct {
	rows []*rowRef
	slot int
}

func (h *rowHeap) Len() int { return len(h.rows) }
func (h *rowHeap) Less(i, j int) bool {
	a, b := h.rows[i], h.rows[j]
	if a.at[h.slot].key != b.at[h.slot].key {
		return a.at[h.slot].key < b.at[h.slot].key
	}
	return a.position < b.position
}
func (h *rowHeap) Swap(i, j int) {
	h.rows[i], h.rows[j] = h.rows[j], h.rows[i]
	h.rows[i].at[h.slot].index, h.rows[j].at[h.slot].index = i+1, j+1
}

// Push implements [heap.Interface].
func (h *rowHeap) Push(x any) {
	r := x.(*rowRef)
	h.rows = append(h.rows, r)
	r.at[h.slot].index = len(h.rows)
}

// Pop implements [heap.Interface].
func (h *rowHeap) Pop() any {
	last := len(h.rows) - 1
	r := h.rows[last]
	h.rows[last] = nil
	h.rows = h.rows[:last]
	r.at[h.slot].index = 0
	return r
}

func (h *rowHeap) push(r *rowRef, key int64) {
	r.at[h.slot].key = key
	heap.Push(h, r)
}

// remove takes r out if it is in.
func (h *rowHeap) remove(r *rowRef) {
	if i := r.at[h.slot].index; i > 0 {
		heap.Remove(h, i-1)
	}
}

// first returns the row with the lowest key, or nil.
func (h *rowHeap) first() *rowRef {
	if len(h.rows) == 0 {
		return nil
	}
	return h.rows[0]
}

// dueBy returns the first row if its key is not above limit.
func (h *rowHeap) dueBy(limit int64) *rowRef {
	if r := h.first(); r != nil && r.at[h.slot].key <= limit {
		return r
	}
	return nil
}
