package boltstore

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWorkThatFailsIsTriedLaterAndLater(t *testing.T) {
	var p patience
	failed := errors.New("no space")
	now := time.Hour
	assert.True(t, p.due(workSeal, now))
	for _, wait := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		p.note(workSeal, failed, now)
		assert.False(t, p.due(workSeal, now+wait*time.Second-1))
		assert.True(t, p.due(workSeal, now+wait*time.Second))
		assert.True(t, p.due(workMerge, now), "other work is not kept from")
	}
	assert.Same(t, failed, p.problem())
	p.hurry()
	assert.True(t, p.due(workSeal, now))
	assert.Same(t, failed, p.problem(), "it has not been done yet")
	p.note(workSeal, nil, now)
	assert.NoError(t, p.problem())
}
