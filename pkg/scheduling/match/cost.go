// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"math/bits"
)

// cost ranks assignments that serve equally many requests: wasted bytes, as a signed
// 128-bit number because a few volumes of the largest size would overflow 64 bits, then
// surplus access modes. Costs add, subtract and compare like numbers, as shortest paths
// require.
type cost struct {
	high    int64
	low     uint64
	surplus int64
}

// costOf is the cost of assigning the volume to the request.
func costOf(r *Request, v *Volume) cost {
	low, borrow := bits.Sub64(uint64(v.Bytes), uint64(r.Bytes), 0)
	return cost{
		high:    v.Bytes>>63 - r.Bytes>>63 - int64(borrow),
		low:     low,
		surplus: int64(v.AccessModes.Surplus(r.AccessModes)),
	}
}

func (a cost) plus(b cost) cost {
	low, carry := bits.Add64(a.low, b.low, 0)
	return cost{a.high + b.high + int64(carry), low, a.surplus + b.surplus}
}

func (a cost) minus(b cost) cost {
	low, borrow := bits.Sub64(a.low, b.low, 0)
	return cost{a.high - b.high - int64(borrow), low, a.surplus - b.surplus}
}

func (a cost) compare(b cost) int {
	if a.high != b.high {
		return cmp.Compare(a.high, b.high)
	}
	if a.low != b.low {
		return cmp.Compare(a.low, b.low)
	}
	return cmp.Compare(a.surplus, b.surplus)
}
