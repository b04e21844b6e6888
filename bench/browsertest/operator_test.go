package browsertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/devdata"
)

// signInWithKey opens a session of the operators' pages.
func (b *browser) signInWithKey(address, key string) {
	b.t.Helper()
	b.open(address)
	b.fill("#key", key)
	b.press("#sign-in-button")
}

// TestClusterOperator: whoever runs the nodes sees one die, without loading the page again, brings
// it back, sees it caught up, and takes a backup that is whole.
func TestClusterOperator(t *testing.T) {
	c := startCluster(t)
	here, lost := "node1", "node2"
	b := openBrowser(t, "cluster", c.ops(here, ""), c.ops(lost, ""))
	b.open(c.ops(here, "/"))
	b.page("sign-in")
	b.fill("#key", "sk_admin_wrong")
	b.refused(401).press("#sign-in-button")
	b.answer("sign-in-refused")
	b.signInWithKey(c.ops(here, "/"), c.AdminKey)
	b.page("accounts")

	b.follow("Cluster")
	for _, node := range c.Nodes {
		b.reads("#member-"+node.ID, "reachable")
	}
	b.page("members")
	b.follow("This node")
	b.page("node")
	b.follow("Cluster")

	pid, err := devdata.Holder(devdata.NodeLock(c.folder.NodeFolder(lost)))
	require.NoError(t, err)
	c.kill(pid)
	b.reads("#member-"+lost, "unreachable")
	b.reads("#findings", "not reached by "+here)
	require.NotContains(t, b.text("#groups"), "none known", "two of three go on")
	b.page("member-lost")
	b.follow("Cluster")

	c.restart(lost)
	require.Eventually(t, func() bool { return b.text("#member-"+lost+" .status.reachable") != "" },
		patience, 100*time.Millisecond, "the page does not see that the node is back")

	// The node that was away says of itself how far it is.
	b.signInWithKey(c.ops(lost, "/console/sign-in?return=%2Fconsole%2Fcluster"), c.AdminKey)
	require.Eventually(t, func() bool {
		return b.text("#groups td[data-label=Lag]") == "0" && b.count(".notice.problem") == 0
	}, patience, 100*time.Millisecond, "the node has not caught up:\n%s", b.text("main"))
	b.page("member-caught-up")

	b.open(c.ops(here, "/console/cluster"))
	b.takeBackup()
	b.takeBackup()
	b.follow("Changes")
	b.page("changes")
	b.follow("Workspaces")
	b.page("workspaces-none")
	b.withoutMajority(c, here)
	b.open(c.ops(here, "/console"))
	b.press("#sign-out")
	b.refused(200).open(c.ops(here, "/console/cluster"))
	require.Equal(t, "/console/sign-in", b.path())
}

// withoutMajority kills all nodes but one, whose pages are still there, say how old they are and
// offer nothing.
func (b *browser) withoutMajority(c *cluster, left string) {
	b.t.Helper()
	b.open(c.ops(left, "/console"))
	require.Equal(b.t, 1, b.count("#create-account"))
	for _, node := range c.Nodes {
		if node.ID == left {
			continue
		}
		pid, err := devdata.Holder(devdata.NodeLock(c.folder.NodeFolder(node.ID)))
		require.NoError(b.t, err)
		c.kill(pid)
	}
	require.Eventually(b.t, func() bool {
		b.open(c.ops(left, "/console"))
		return b.count("#old") == 1
	}, patience, 100*time.Millisecond, "the page does not say that it is old:\n%s", b.text("main"))
	require.Contains(b.t, b.text("#old"), "Nothing can be changed now")
	require.Zero(b.t, b.count("#create-account"))
	b.answer("no-majority")
	b.follow("Look at the cluster")
	require.Zero(b.t, b.count("#backup"))
	b.reads("#member-"+left, "reachable")
}

// takeBackup presses the button of the cluster's page, and has the file checked to its last byte.
func (b *browser) takeBackup() {
	b.t.Helper()
	folder := b.t.TempDir()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_, err := chromedp.CallBrowser(ctx, cdpbrowser.SetDownloadBehavior,
		cdpbrowser.SetDownloadBehaviorParams{
			Behavior: cdpbrowser.SetDownloadBehaviorBehaviorAllow, DownloadPath: folder,
		})
	require.NoError(b.t, err)
	b.click("#backup button")
	var file string
	require.Eventually(b.t, func() bool {
		files, err := filepath.Glob(folder + "/tollgate-*.backup")
		if err == nil && len(files) == 1 {
			file = files[0]
		}
		return file != ""
	}, patience, 50*time.Millisecond, "no backup arrives")
	size, err := os.Stat(file)
	require.NoError(b.t, err)
	require.Positive(b.t, size.Size())
	said, err := exec.Command(program("tollgate"), "backup", "verify", file).CombinedOutput()
	require.NoError(b.t, err, "%s", said)
}
