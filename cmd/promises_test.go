package cmd_test

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// named finds the tests that a document names: in a list of several, or shortened by three dots.
var named = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*…?`)

// Every test that a document names is there: what a table promises would else be anybody's word.
func TestPromisesNameTestsThatExist(t *testing.T) {
	var functions []string
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && named.MatchString(f.Name.Name) {
				functions = append(functions, f.Name.Name)
			}
		}
	}
	all := "\n" + strings.Join(functions, "\n") + "\n"
	var offenders []string
	found := 0
	eachFile(t, func(path string, text []byte) {
		if !strings.HasSuffix(path, ".md") {
			return
		}
		for _, name := range named.FindAllString(string(text), -1) {
			found++
			want := "\n" + name + "\n"
			if begin, short := strings.CutSuffix(name, "…"); short {
				want = "\n" + begin
			}
			if !strings.Contains(all, want) {
				offenders = append(offenders, path+" names "+name)
			}
		}
	})
	require.Greater(t, found, 100, "the documents name tests")
	report(t, "what a document names is a test that exists", offenders)
}
