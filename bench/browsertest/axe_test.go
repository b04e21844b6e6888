package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// axeFile is what axe.sh installs.
const axeFile = "../../bin/axe-core-4.14.1.js"

var axeSource = sync.OnceValues(func() (string, error) {
	text, err := os.ReadFile(axeFile)
	return string(text), err
})

// axe is what axe-core finds wrong with the page as it is: all its rules but those that it calls
// experimental.
func (b *tab) axe() (faults []string) {
	b.t.Helper()
	if !evaluate[bool](b, `"axe" in window`) {
		source, err := axeSource()
		require.NoError(b.t, err, "there is no axe-core: bench/browsertest/axe.sh installs it")
		evaluate[bool](b, source+"\ntrue")
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`axe.run(document, {
		resultTypes: ["violations"],
	}).then(r => JSON.stringify(r.violations.flatMap(v => v.nodes.map(n =>
		v.id + " (" + v.help + "): " + n.html.slice(0, 200) + " " + (n.any[0]?.message ?? "")))))`,
		chromedp.EvalAwaitPromise))
	require.NoError(b.t, err)
	require.NoError(b.t, json.Unmarshal([]byte(text), &faults))
	return faults
}

// maxPage is how many bytes a page and its style sheets have at most, uncompressed.
const maxPage = 100 << 10

// maxPaint is how long the first paint of a page may take: the median of three loads.
const maxPaint = 300 * time.Millisecond

// load is what was loaded of the page.
type load struct {
	Bytes int
	Paint float64 // ms from the beginning of the navigation; 0: not painted yet
}

// weight is what is wrong with what a page weighs, and how long it took until it was seen.
func (b *browser) weight() (faults []string) {
	b.t.Helper()
	text := evaluate[string](b.tab, `JSON.stringify({
		bytes: performance.getEntriesByType("navigation")[0].decodedBodySize +
			performance.getEntriesByType("resource").filter(r => r.name.endsWith(".css"))
				.reduce((sum, r) => sum + r.decodedBodySize, 0),
		paint: `+firstPaint+`,
	})`)
	var l load
	require.NoError(b.t, json.Unmarshal([]byte(text), &l))
	b.heaviest = max(b.heaviest, l.Bytes)
	b.paints = append(b.paints, l.painted())
	if l.Bytes == 0 || l.Bytes > maxPage {
		faults = append(faults, fmt.Sprintf("it has %d bytes with its styles", l.Bytes))
	}
	return faults
}

func (l *load) painted() time.Duration { return time.Duration(l.Paint * float64(time.Millisecond)) }

// slowly is what is wrong with how long a page takes until it is seen. One slow load says nothing:
// three more are made, and where their median is above, too, three more when the machine is less
// busy.
func (b *browser) slowly() (faults []string) {
	b.t.Helper()
	median, address := b.paints[len(b.paints)-1], b.where()
	for try := range maxTries {
		if median <= maxPaint {
			return nil
		}
		if try > 0 {
			awaitCalm()
		}
		var all []time.Duration
		for range 3 {
			b.open(address)
			var l load
			require.Eventually(b.t, func() bool {
				l.Paint = evaluate[float64](b.tab, firstPaint)
				return l.Paint > 0
			}, patience, 20*time.Millisecond, "%s is not painted", address)
			all = append(all, l.painted())
		}
		slices.Sort(all)
		median = all[1]
	}
	if median > maxPaint {
		faults = append(faults, fmt.Sprintf("it is painted after %s, the median of three loads", median))
	}
	return faults
}

const (
	// maxTries bounds how often three loads are made.
	maxTries = 6
	// firstPaint is ms from the beginning of the navigation; 0: not painted yet.
	firstPaint = `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0`
)

// awaitCalm waits until no more processes run than there are cores, for 20 seconds at most.
func awaitCalm() {
	end, tick := time.Now().Add(20*time.Second), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for at := range tick.C {
		if at.After(end) {
			return
		}
		text, err := os.ReadFile("/proc/loadavg")
		if fields := strings.Fields(string(text)); err == nil && len(fields) > 3 {
			running, _, _ := strings.Cut(fields[3], "/")
			if n, err := strconv.Atoi(running); err == nil && n <= runtime.NumCPU() {
				return
			}
		}
	}
}

// weighed tells, when a walk ends, what its pages weighed.
func (b *browser) weighed() {
	if len(b.paints) == 0 {
		return
	}
	slices.Sort(b.paints)
	b.t.Logf("%d pages: the heaviest has %d bytes with its styles, the first paint came after %s (median), "+
		"%s (most)", len(b.paints), b.heaviest, b.paints[len(b.paints)/2], b.paints[len(b.paints)-1])
}
