package onefold_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

// defaults are the values in the code.
var defaults = map[string]any{
	"onefold.DefaultMaxPayload":        onefold.DefaultMaxPayload,
	"onefold.DefaultMaxEntry":          onefold.DefaultMaxEntry,
	"onefold.MaxCallNameBytes":         onefold.MaxCallNameBytes,
	"onefold.MaxHeaderBytes":           onefold.MaxHeaderBytes,
	"onefold.MaxSubjectBytes":          onefold.MaxSubjectBytes,
	"onefold.MaxStateKeyBytes":         onefold.MaxStateKeyBytes,
	"onefold.MaxReasonBytes":           onefold.MaxReasonBytes,
	"onefold.MaxStackBytes":            onefold.MaxStackBytes,
	"consumer.DefaultBatchSize":        consumer.DefaultBatchSize,
	"consumer.DefaultBatchWait":        consumer.DefaultBatchWait,
	"consumer.DefaultConcurrency":      consumer.DefaultConcurrency,
	"consumer.DefaultMaxAttempts":      consumer.DefaultMaxAttempts,
	"consumer.DefaultRetryMin":         consumer.DefaultRetryMin,
	"consumer.DefaultRetryMax":         consumer.DefaultRetryMax,
	"consumer.DefaultAckWait":          consumer.DefaultAckWait,
	"consumer.DefaultLease":            consumer.DefaultLease,
	"consumer.DefaultRetention":        consumer.DefaultRetention,
	"consumer.DefaultMaxAckPending":    consumer.DefaultMaxAckPending,
	"consumer.DefaultShutdownTimeout":  consumer.DefaultShutdownTimeout,
	"consumer.DefaultHandlerTimeout":   consumer.DefaultHandlerTimeout,
	"consumer.DefaultLostTimeout":      consumer.DefaultLostTimeout,
	"consumer.DefaultRelayWithin":      consumer.DefaultRelayWithin,
	"consumer.DefaultDeadLetterStream": consumer.DefaultDeadLetterStream,
	"consumer.DefaultDeadLetterPrefix": consumer.DefaultDeadLetterPrefix,
	"outbox.DefaultCallTimeout":        outbox.DefaultCallTimeout,
	"outbox.DefaultCallWindow":         outbox.DefaultCallWindow,
	"outbox.DefaultWindow":             outbox.DefaultWindow,
	"outbox.DefaultMaxAttempts":        outbox.DefaultMaxAttempts,
	"outbox.DefaultRetryMin":           outbox.DefaultRetryMin,
	"outbox.DefaultRetryMax":           outbox.DefaultRetryMax,
	"outbox.DefaultPublishTimeout":     outbox.DefaultPublishTimeout,
	"outbox.DefaultFeedLease":          outbox.DefaultFeedLease,
	"outbox.DefaultShutdownTimeout":    outbox.DefaultShutdownTimeout,
	"outbox.DefaultEnqueueRetention":   outbox.DefaultEnqueueRetention,
	"outbox.DefaultEnqueueRuns":        outbox.DefaultEnqueueRuns,
	"dedupe.DefaultLease":              dedupe.DefaultLease,
	"dedupe.DefaultRetention":          dedupe.DefaultRetention,
	"dedupe.DefaultCommitTimeout":      dedupe.DefaultCommitTimeout,
	"dedupe.DefaultConflictRuns":       dedupe.DefaultConflictRuns,
	"dedupe.MaxStableIDBytes":          dedupe.MaxStableIDBytes,
	"boltstore.DefaultLockWait":        boltstore.DefaultLockWait,
	"boltstore.DefaultMaxEntry":        boltstore.DefaultMaxEntry,
	"boltstore.DefaultFailureLag":      boltstore.DefaultFailureLag,
	"boltstore.DefaultMaxGroupEntries": boltstore.DefaultMaxGroupEntries,
	"boltstore.DefaultMaxGroupBytes":   boltstore.DefaultMaxGroupBytes,
	"boltstore.DefaultMmapBytes":       boltstore.DefaultMmapBytes,
	"boltstore.DefaultMaxBytes":        boltstore.DefaultMaxBytes,
	"boltstore.DefaultRecordBytes":     boltstore.DefaultRecordBytes,
	"boltstore.DefaultSegmentRecords":  boltstore.DefaultSegmentRecords,
}

func TestTheTableOfDefaultsIsTheCode(t *testing.T) {
	page, err := os.ReadFile("docs/defaults.md")
	require.NoError(t, err)
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-zA-Z.]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = row[2]
	}
	real := map[string]string{}
	for name, value := range defaults {
		real[name] = fmt.Sprint(value)
	}
	assert.Equal(t, real, documented)
	for _, name := range declaredDefaults(t) {
		assert.Contains(t, documented, name, "a default or limit that docs/defaults.md does not list")
	}
}

// declaredDefaults finds the exported constants whose names start with Default or Max, in public packages.
func declaredDefaults(t *testing.T) (names []string) {
	walk := func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "internal" || strings.HasPrefix(entry.Name(), ".") && path != ".") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		names = append(names, constants(file)...)
		return nil
	}
	require.NoError(t, filepath.WalkDir(".", walk))
	require.NotEmpty(t, names)
	return names
}

func constants(file *ast.File) (names []string) {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				if strings.HasPrefix(name.Name, "Default") || strings.HasPrefix(name.Name, "Max") {
					names = append(names, file.Name.Name+"."+name.Name)
				}
			}
		}
	}
	return names
}

func TestTheReadmeShowsTheCodeOfTheExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	handler, err := os.ReadFile("examples/quickstart/handler.go")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(handler), ")\n\n") // the imports end here
	require.True(t, found)
	assert.Contains(t, string(readme), code)
	test, err := os.ReadFile("examples/quickstart/handler_test.go")
	require.NoError(t, err)
	_, code, found = strings.Cut(string(test), ")\n\n")
	require.True(t, found)
	code, _, _ = strings.Cut(code, "\n\n") // the first test
	assert.Contains(t, string(readme), code)
	service, err := os.ReadFile("examples/quickstart/main.go")
	require.NoError(t, err)
	_, code, found = strings.Cut(string(service), "// serve is all")
	require.True(t, found)
	assert.Contains(t, string(readme), "// serve is all"+code)
	web, err := os.ReadFile("examples/outbox-web/handler.go")
	require.NoError(t, err)
	_, code, found = strings.Cut(string(web), "// place writes")
	require.True(t, found)
	code, _, _ = strings.Cut(code, "\n\n")
	assert.Contains(t, string(readme), "// place writes"+code)
}

func TestLinksBetweenDocumentsLead(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	for _, pattern := range []string{"docs/*.md", "docs/decisions/*.md"} {
		more, err := filepath.Glob(pattern)
		require.NoError(t, err)
		pages = append(pages, more...)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			_, err := os.Stat(filepath.Join(filepath.Dir(page), m[1]))
			assert.NoError(t, err, "%s links to %s", page, m[1])
		}
	}
}
