package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"tollgate/cmd/tollgate/api"
	"tollgate/cmd/tollgate/devdata"
)

// adminFlags say which cluster to operate. What is not given comes from dev.json in Data.
type adminFlags struct {
	Ops      []string `placeholder:"HOST:PORT" help:"Operations listener of a node; repeatable. Default: from dev.json."`
	AdminKey string   `env:"TOLLGATE_ADMIN_KEY" placeholder:"KEY" help:"Admin key. Default: from dev.json."`
	Data     string   `default:".tollgate" help:"Data folder of tollgate dev, whose dev.json says the defaults."`
}

// client connects to the admin API.
func (f *adminFlags) client() (*api.Client, error) {
	ops, key := f.Ops, f.AdminKey
	if len(ops) == 0 || key == "" {
		running, err := devdata.Folder(f.Data).Load()
		if err != nil {
			return nil, fmt.Errorf("without --ops and --admin-key: %w", err)
		}
		if len(ops) == 0 {
			for _, node := range running.Nodes {
				ops = append(ops, node.Ops)
			}
		}
		if key == "" {
			key = running.AdminKey
		}
	}
	client, err := api.New(ops, key, 2)
	if err == nil {
		client.Patience = adminPatience
	}
	return client, err
}

// adminPatience is how long a command goes on when no node answers: longer than an election takes.
const adminPatience = 15 * time.Second

// environmentFlags say whose records to operate on.
type environmentFlags struct {
	Account     string `default:"demo" help:"The account."`
	Environment string `name:"env" default:"sandbox" enum:"sandbox,live" help:"sandbox or live."`
}

func (f *environmentFlags) path() string {
	return adminPath + "/" + url.PathEscape(f.Account) + "/environments/" + f.Environment
}

func catalogPath(account, environment string) string {
	f := environmentFlags{account, environment}
	return f.path() + "/catalog"
}

// createdKey is an API key, shown once.
type createdKey struct {
	ID  string `json:"id"`
	Key string `json:"key"`
}

func createKey(ctx context.Context, admin *api.Client, account, environment, scope, label string,
) (createdKey, error) {
	f := environmentFlags{account, environment}
	var created createdKey
	_, err := admin.Call(ctx, "POST", f.path()+"/keys",
		map[string]string{"scope": scope, "label": label}, &created)
	if err == nil && created.Key == "" {
		err = errors.New("the answer holds no key")
	}
	return created, err
}
