package consumer_test

import (
	"testing"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/memstore"
)

func openMemory(testing.TB) onefold.Store { return memstore.New() }
func openBolt(testing.TB) onefold.Store   { return memstore.New() }
