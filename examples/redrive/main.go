// Redrive shows what to do about dead letters: a handler gives some messages up, is mended, and their messages
// are brought back.
//
// It publishes 100 payments to a service that does not know Swiss francs, reads what became dead letters, tries
// their redrive dry, redrives them to the mended service, does so a second time by mistake, and counts the
// transfers on the output stream. It starts a NATS server of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/internal/natstest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "redrive:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "onefold-redrive-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	srv, err := natstest.StartAt(filepath.Join(dir, "nats"), natstest.Options{})
	if err != nil {
		return err
	}
	defer srv.Stop()
	nc, js, err := srv.Dial()
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := publishPayments(ctx, js); err != nil {
		return err
	}

	bank := &service{js: js, dir: filepath.Join(dir, "store"), rates: map[string]int{"EUR": 100}}
	if err := bank.runUntilIdle(ctx, paymentCount); err != nil {
		return err
	}
	bank.rates["CHF"] = 104 // the bug is mended
	published, err := redriveTwice(ctx, js)
	if err != nil {
		return err
	}
	if err := bank.runUntilIdle(ctx, paymentCount+published); err != nil {
		return err
	}
	return audit(ctx, js, bank)
}

// redriveTwice is what an operator does. It returns how many messages were published.
func redriveTwice(ctx context.Context, js jetstream.JetStream) (published int, err error) {
	letters, err := consumer.NewDeadLetters(js, consumer.DeadLettersConfig{})
	if err != nil {
		return 0, err
	}
	// From here on the set is fixed: what is given up later is not in it.
	selection, err := letters.Select(ctx, consumer.LetterFilter{Consumer: durable, Reason: "unknown currency"})
	if err != nil {
		return 0, err
	}
	if err := show(ctx, selection); err != nil {
		return 0, err
	}
	for _, round := range []struct {
		title   string
		options consumer.RedriveOptions
	}{
		{"dry run", consumer.RedriveOptions{DryRun: true}},
		{"redrive", consumer.RedriveOptions{PerSecond: 200}},
		{"again", consumer.RedriveOptions{}},
	} {
		n, err := redrive(ctx, selection, round.title, round.options)
		if err != nil {
			return published, err
		}
		published += n
	}
	return published, nil
}

// show prints the first of the selected letters.
func show(ctx context.Context, selection *consumer.Selection) error {
	for letter, err := range selection.Letters(ctx) {
		if err != nil {
			return err
		}
		m := letter.Message
		fmt.Printf("dead letter    %s, message %d of %s on %q: %s (%s)\n", letter.Key.ID, m.Sequence, m.Stream, m.Subject, letter.Reason, letter.Class)
		return nil
	}
	return errors.New("there is no dead letter")
}

// redrive prints what becomes of a selection.
func redrive(ctx context.Context, selection *consumer.Selection, title string, o consumer.RedriveOptions) (published int, err error) {
	selected, duplicates := 0, 0
	for done, err := range selection.Redrive(ctx, o) {
		if err != nil {
			return published, err // a tool that is used in earnest would note it and go on with the next letter
		}
		selected++
		switch {
		case done.Duplicate:
			duplicates++
		case done.Sequence > 0:
			published++
		}
	}
	fmt.Printf("%-14s %d letters, %d published, %d were there already\n", title, selected, published, duplicates)
	return published, nil
}
