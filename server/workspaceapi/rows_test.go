package workspaceapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rows are what the document says besides its endpoints and errors, each with the tests or the text
// scenarios (of engine/testdata) that play it. Endpoints are the table of TestEveryEndpoint, pairs
// of status and code those of TestEveryRefusal. What cannot be played yet names the feature that it
// waits for.
var rows = map[string]string{
	// Resources and their fields
	"signup result: key and code once, claimed false":       "TestEveryEndpoint TestScopes TestSecretsAreNotCached",
	"flow: verification, credential, no keys in it":         "TestRefusalsNameTheField TestSecretsStayOut TestLongestTexts",
	"quote: fingerprint, executionAvailable":                "TestQuotes TestAFingerprintIsOfAllThatWasQuoted",
	"run: statuses":                                         "TestWhatARunAllows",
	"run: outcomes":                                         "TestHowRunsEnd TestBlockedIsDecidedByCalls TestSampleProducts",
	"purchase: statuses, at most 10 runs, charging":         "TestPagesAtStripe TestAPageThatIsRefused TestWaitIsForACharge TestRefusalsNameTheField",
	"account usage: sums, last 20 runs, only with payments": "TestUsageShowsTheLast20Runs TestEveryRefusal",
	"alert watch: states":                                   "TestAWatchFollowsItsRuns",
	"alert watch: deliveries":                               "TestAlertsAreSent TestAWebhookIsTriedAgain workspace-alerts.txt",
	"issue: open, fix_ready, a note within its limit":       "TestAFixIsVerified TestLongestTexts",
	"inspection document":                                   "TestWeInspectOurselves",

	// States and transitions
	"start with a valid fingerprint and key": "TestAnAgentsWay TestALeaderIsKilledAtEachPointOfARun workspace-start.txt",
	"start with no run left":                 "TestA402StartsNothing",
	"resume of a run that waits":             "TestWhatARunAllows TestAPersonHelps TestARunDoesNotWaitForEver",
	"cancel of a run that has not finished":  "TestWhatARunAllows TestCancelEndsTheAgent TestLateWordsAreRefused",
	"cancel of a purchase":                   "TestACancelledPurchaseStaysCancelled TestPagesAtStripe TestAnInterruptedCancellation",
	"approval by the owner":                  "TestTakingOver TestTheOwnerConfirmsWhatIsShown",
	"payment at checkout":                    "TestPurchasesThroughStripe TestAPurchaseThatIsPaidTwice",
	"fix_ready, closed by a passing retest":  "TestAFixIsVerified workspace-issues.txt",
	"claim of an unclaimed workspace":        "TestTakingOver",
	"watch: failing and recovery":            "TestAWatchFollowsItsRuns TestAlertsAreSent workspace-alerts.txt",
	"inconclusive or lost: free":             "TestHowRunsEnd TestAnAgentsWay TestARunWhoseLeaderIsKilled workspace-runs.txt",

	// Endpoints: what is said above and below the table
	"bodies are JSON objects of at most 32 KB": "TestBodiesOf32KB TestEveryRefusal",
	"unknown body fields":                      "TestNoRouteTakesUnknownFields",
	"rule 1: fingerprint":                      "TestWhatIsNoQuote TestQuotes",
	"rule 1: Idempotency-Key":                  "TestWhatIsNoRequestKey TestRequestKeysAreOfOneWorkspace",
	"rule 1: a flow with an active run":        "TestWhatARunAllows",
	"rule 2: approve":                          "TestA402StartsNothing",
	"rule 2: purchase":                         "TestASavedCardPays",
	"rule 2: wait":                             "TestWaitIsForACharge",
	"rule 3: approval_url is null":             "TestA402StartsNothing TestADeclinedCardNeedsItsOwner",
	"rule 4: no card, over the cap, paused":    "TestPurchasesThatNeedTheOwner",
	"rule 4: an agent session":                 "TestAnAgentNeverChargesACard workspace-purchases.txt",
	"rule 5: lowering a cap nobody approved":   "TestEveryRefusal",
	"rule 6: signup turned off":                "TestWhatOnlyAnOperatorEnds",

	// Authentication
	"1 a key as a bearer":                     "TestOnlyWorkspaceKeysAreKeys TestARevokedKeyDoesNotWorkOnANodeThatLags",
	"2 WWW-Authenticate on any 401":           "TestEveryRefusal",
	"3 scopes":                                "TestScopes",
	"4 dashboard session":                     "TestASessionIsABearer TestSessionsEnd",
	"5 agent identity":                        "TestAgentsSignIn TestWhatAgentsMay",
	"6 owner linking, 7 agents' workspaces":   "TestAgentsWorkForTheirOwner workspace-links.txt",
	"8 an agent session never charges a card": "TestAnAgentNeverChargesACard TestWhatAgentsMay",
	"9 what needs a person":                   "TestEveryRefusal TestScopes",
	"10 cancel, pause, cap, self-revoke":      "TestScopes TestEveryEndpoint",
	"11 claiming":                             "TestASessionIsABearer TestTakingOver workspace-owners.txt",

	// Events
	"alerts are set by the owner":    "TestEveryRefusal TestWhoSetsAlerts TestAnOwnerSetsAlerts",
	"alerts are sent":                "TestAlertsAreSent TestAMailIsSentOnce TestAWebhookIsTriedAgain",
	"notifications, and marked read": "TestEveryRefusal TestAWatchFollowsItsRuns TestAFixIsVerified",

	// Errors and limits
	"records are never visible across accounts": "TestNothingIsSeenAcrossWorkspaces TestNoAnswerNamesAnothersRecord",
	"limits of a UTC day, and Retry-After":      "TestLimitsEndAtMidnight",
	"5 free runs a month, none unclaimed":       "TestTakingOver",
	"500 cents a run":                           "TestAnAgentsWay",
	"cap: 5000, at most 20000, set by an owner": "TestPurchasesThatNeedTheOwner TestEveryRefusal",
	"5 new approval links":                      "TestEveryRefusal",
	"10 cancels, repetitions not counted":       "TestLimitsEndAtMidnight TestACancelledPurchaseStaysCancelled",
	"20 waiting link requests, 5 minutes":       "TestAgentsWorkForTheirOwner TestAgentsSignIn",
	"signups of an address in an hour":          "TestSignupsAnHour TestSourcesOfSignups",

	// Versioning
	"the older local tool is told to upgrade": "TestEveryRefusal",
	"routes begin with /v1":                   "TestWhatIsPublished",
}

// TestEveryRowHasItsScenario: the tests and texts that are named are there.
func TestEveryRowHasItsScenario(t *testing.T) {
	root := filepath.Join("..", "..")
	found := testsIn(t, ".")
	for name := range testsIn(t, filepath.Join("..", "identity")) {
		found[name] = true
	}
	for name := range testsIn(t, filepath.Join(root, "bench", "clustertest")) {
		found[name] = true
	}
	for row, played := range rows {
		if strings.HasPrefix(played, "later: ") {
			continue
		}
		require.NotEmpty(t, played, row)
		for name := range strings.FieldsSeq(played) {
			if strings.HasSuffix(name, ".txt") {
				_, err := os.Stat(filepath.Join(root, "engine", "testdata", name))
				require.NoError(t, err, row)
				continue
			}
			require.True(t, found[name], "%s: there is no %s", row, name)
		}
	}
}

// testsIn are the names of a folder's tests.
func testsIn(t *testing.T, folder string) map[string]bool {
	found := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				found[f.Name.Name] = true
			}
		}
	}
	return found
}
