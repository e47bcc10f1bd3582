package diskfault

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// inspector asks an inspector process, and starts another if one dies: that a store ends the process that
// opens it is itself a finding.
type inspector struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
	log     *os.File
}

// ask returns the answer, or an error if the process has ended instead.
func (i *inspector) ask(q question) (finding, error) {
	if i.cmd == nil {
		if err := i.start(); err != nil {
			return finding{}, err
		}
	}
	var f finding
	err := json.NewEncoder(i.in).Encode(q)
	if err == nil {
		err = i.answers.Decode(&f)
	}
	if err != nil {
		return f, fmt.Errorf("the process that opened the store has ended: %w", i.end())
	}
	return f, nil
}

func (i *inspector) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if i.log, err = os.CreateTemp("", "inspector-*.log"); err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), inspectVariable+"=1")
	cmd.Stderr = i.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if i.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	i.answers = json.NewDecoder(bufio.NewReader(out))
	i.cmd = cmd
	return cmd.Start()
}

// end ends the process and returns what it said.
func (i *inspector) end() error {
	if i.cmd == nil {
		return nil
	}
	_ = i.in.Close()
	err := i.cmd.Wait()
	text, _ := os.ReadFile(i.log.Name())
	_ = i.log.Close()
	_ = os.Remove(i.log.Name())
	i.cmd = nil
	return fmt.Errorf("%w: %.4000s", err, text)
}
