package natstest_test

import (
	"fmt"
	"os"

	"github.com/onefold-go/onefold/internal/natstest"
)

func ExampleStartAt() {
	dir, err := os.MkdirTemp("", "natstest")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	s, err := natstest.StartAt(dir, natstest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Stop()
	nc, _, err := s.Dial()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	fmt.Println(nc.IsConnected())
	// Output: true
}
