// Scenario of a user of queue tables, through go-mssqldb. scenario.py describes the variables.
package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
)

var sizes = []int{300, 0, 100_000}

var forever = context.Background()

func given(name string) string {
	return os.Getenv("COMPAT_" + name)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func say(step string, facts map[string]any) {
	facts["step"] = step
	line, err := json.Marshal(facts)
	must(err)
	fmt.Println(string(line))
}

func open() *sql.DB {
	query := url.Values{"database": {given("DATABASE")}}
	query.Set("encrypt", map[string]string{"plain": "disable", "login": "false", "full": "true", "strict": "strict"}[given("MODE")])
	if given("MODE") == "strict" {
		query.Set("certificate", given("CERTIFICATE"))
		query.Set("hostNameInCertificate", "localhost")
	} else {
		query.Set("TrustServerCertificate", "true")
	}
	address := url.URL{
		Scheme:   "sqlserver",
		User:     url.UserPassword(given("USER"), given("PASSWORD")),
		Host:     given("HOST") + ":" + given("PORT"),
		RawQuery: query.Encode(),
	}
	pool, err := sql.Open("sqlserver", address.String())
	must(err)
	return pool
}

func connect(pool *sql.DB) *sql.Conn {
	connection, err := pool.Conn(forever)
	must(err)
	return connection
}

func value[T any](connection *sql.Conn, text string) T {
	var found T
	must(connection.QueryRowContext(forever, text).Scan(&found))
	return found
}

func run(connection *sql.Conn, text string) {
	_, err := connection.ExecContext(forever, text)
	must(err)
}

func send(connection *sql.Conn, number int) {
	body := make([]byte, sizes[number-1])
	for index := range body {
		body[index] = byte(index*7 + number)
	}
	done, err := connection.ExecContext(forever, given("SEND"),
		sql.Named("Id", fmt.Sprintf("00000000-0000-0000-0000-%012d", number)),
		sql.Named("Ttbr", sql.NullInt32{}),
		sql.Named("Headers", fmt.Sprintf("{\"Number\":\"%d\",\"Greeting\":\"Grüße Ω 😀\"}", number)),
		sql.Named("Body", body),
	)
	must(err)
	if changed, err := done.RowsAffected(); err != nil || changed != 1 {
		log.Fatalf("a send changes one row, not %d (%v)", changed, err)
	}
}

func received(transaction *sql.Tx) []string {
	var id mssql.UniqueIdentifier
	var expired int
	var headers string
	var body []byte
	err := transaction.QueryRowContext(forever, given("RECEIVE")).Scan(&id, &expired, &headers, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	must(err)
	hash := sha256.Sum256(append([]byte(headers), body...))
	return []string{strings.ToLower(id.String()), fmt.Sprintf("%x", hash)}
}

func receive(first, second *sql.Conn) {
	one, err := first.BeginTx(forever, nil)
	must(err)
	two, err := second.BeginTx(forever, nil)
	must(err)
	held := received(one)
	others := [][]string{received(two), received(two), received(two)}
	must(one.Rollback())
	again := received(two)
	must(two.Commit())
	left := value[int](first, given("COUNT"))
	say("receive", map[string]any{"held": held, "others": others, "again": again, "left": left})
}

func cancelled(connection *sql.Conn, text string) any {
	// No deadline: the driver takes its error as one of the network and closes the connection.
	limited, stop := context.WithCancel(forever)
	defer time.AfterFunc(500*time.Millisecond, stop).Stop()
	start := time.Now()
	if _, err := connection.ExecContext(limited, text); err == nil {
		return nil
	}
	return time.Since(start).Seconds()
}

func number(err error) int32 {
	var found mssql.Error
	if errors.As(err, &found) {
		return found.Number
	}
	return 0
}

func main() {
	// A pool may close connections: take each of these two once and keep it.
	pool := open()
	first, second := connect(pool), connect(pool)
	version := ""
	if built, ok := debug.ReadBuildInfo(); ok {
		for _, module := range built.Deps {
			if module.Path == "github.com/microsoft/go-mssqldb" {
				version = strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	say("client", map[string]any{"version": version})
	say("login", map[string]any{"connection": value[string](first, given("CONNECTION"))})
	run(first, given("CREATE"))
	run(first, given("PREPARE"))
	say("create", map[string]any{"tables": value[int](first, given("TABLES"))})
	for index := range sizes {
		send(first, index+1)
	}
	say("send", map[string]any{"count": value[int](first, given("COUNT"))})
	receive(first, second)

	holder, err := first.BeginTx(forever, nil)
	must(err)
	_, err = holder.ExecContext(forever, given("HOLD"))
	must(err)
	numbers := []int32{}
	for _, text := range strings.Split(given("ERRORS"), "\n") {
		_, err := second.ExecContext(forever, text)
		numbers = append(numbers, number(err))
	}
	say("errors", map[string]any{"numbers": numbers})
	run(second, "SET LOCK_TIMEOUT -1")
	waiting := cancelled(second, given("WAIT"))
	blocked := cancelled(second, given("BLOCKED"))
	say("cancel", map[string]any{"waiting": waiting, "blocked": blocked, "after": value[int](second, "SELECT 7")})
	must(holder.Rollback())
	run(first, given("DROP"))
}
