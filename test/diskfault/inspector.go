package diskfault

import (
	"encoding/json"
	"fmt"
	"io"
)

// serve is the inspector process: a question a line, an answer a line.
func serve(in io.Reader, out io.Writer) error {
	questions, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q question
		switch err := questions.Decode(&q); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return fmt.Errorf("inspector: %w", err)
		}
		if err := answers.Encode(inspect(q)); err != nil {
			return fmt.Errorf("inspector: %w", err)
		}
	}
}
