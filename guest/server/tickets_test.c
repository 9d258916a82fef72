/* guest/server/tickets_test.c: what opens a socket once, under a clock of the test's. */
#include "guest/server/tickets.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "tests/unit/test.h"

#include <errno.h>

#include "lib/base/banned.h"

/* A policy of @count tokens "i0", "i1"...; the scopes of i0 and whether it is there are the test's.
 */
static const char *document(unsigned first, unsigned count, const char *scope_of_i0)
{
    static char text[8192];
    struct abx_buf b = {.ptr = text, .cap = sizeof(text), .max = sizeof(text) - 1};
    abx_buf_put_c(&b, "{\"auth\": {\"tokens\": [");
    for (unsigned i = first; i < count; i++)
        abx_buf_putf(&b, "%s{\"id\": \"i%u\", \"scopes\": [\"%s\"], \"token_sha256\": \"%064x\"}",
                     i > first ? "," : "", i, i == 0 ? scope_of_i0 : "terminal:*", i + 1);
    abx_buf_put_c(&b, "]}}");
    assert_false(abx_buf_failed(&b));
    return text;
}

static struct abx_policy *policy_of(const char *text)
{
    struct abx_policy_facts facts = {.text = abx_str(text), .has_text = true};
    struct abx_policy *p = NULL;
    struct abx_report report;
    abx_report_init(&report);
    assert_int_equal(abx_policy_load(&facts, &p, &report), 0);
    abx_report_done(&report);
    return p;
}

static struct abx__ticket_bond bond_of(struct abx_policy *p, size_t index, const char *session)
{
    struct abx__ticket_bond b = {.policy = p, .session = abx_str(session)};
    assert_true(abx_policy_identity_at(p, index, &b.who));
    return b;
}

/* Whose the ticket is, or NULL. */
static const char *redeem(struct abx__tickets *t, struct abx_policy *now, const char *ticket,
                          const char *session, int64_t now_ms)
{
    static char name[16];
    struct abx__ticket_bond b = {.policy = now, .session = abx_str(session)};
    if (!abx__tickets_redeem(t, abx_str(ticket), now_ms, &b))
        return NULL;
    assert_int_equal(abx_str_to_c(b.who.id, name, sizeof(name)), 0);
    return name;
}

struct rig {
    struct abx__tickets tickets;
    struct abx_policy *policy;
    struct abx__ticket_bond bond;
    char ticket[ABX__TICKET_TEXT + 1];
};

static void begin(struct rig *r)
{
    abx__tickets_init(&r->tickets);
    r->policy = policy_of(document(0, 2, "terminal:*"));
    r->bond = bond_of(r->policy, 0, "s1");
    assert_int_equal(abx__tickets_issue(&r->tickets, &r->bond, 1000, r->ticket), 0);
    assert_int_equal(strlen(r->ticket), ABX__TICKET_TEXT);
}

static void end(struct rig *r)
{
    abx__tickets_sweep(&r->tickets, INT64_MAX);
    assert_int_equal(r->tickets.count, 0);
    abx_policy_unref(r->policy);
}

TEST(d13_a_ticket_is_good_once)
{
    struct rig r;
    begin(&r);
    assert_string_equal(redeem(&r.tickets, r.policy, r.ticket, "s1", 1001), "i0");
    assert_null(redeem(&r.tickets, r.policy, r.ticket, "s1", 1001));
    end(&r);
}

TEST(d13_a_ticket_lives_half_a_minute)
{
    struct rig r;
    char late[ABX__TICKET_TEXT + 1];
    begin(&r);
    assert_int_equal(abx__tickets_issue(&r.tickets, &r.bond, 1000, late), 0);
    assert_string_equal(redeem(&r.tickets, r.policy, r.ticket, "s1", 1000 + 29999), "i0");
    assert_null(redeem(&r.tickets, r.policy, late, "s1", 1000 + 30000));
    assert_int_equal(r.tickets.count, 0);
    end(&r);
}

TEST(s12_a_ticket_is_for_its_session_and_gone_once_shown)
{
    struct rig r;
    begin(&r);
    assert_null(redeem(&r.tickets, r.policy, r.ticket, "s2", 1001));
    assert_null(redeem(&r.tickets, r.policy, r.ticket, "s1", 1001));
    end(&r);
}

TEST(what_is_no_ticket_takes_none_away)
{
    struct rig r;
    char wrong[ABX__TICKET_TEXT + 1];
    begin(&r);
    memcpy(wrong, r.ticket, sizeof(wrong));
    wrong[0] = wrong[0] == '0' ? '1' : '0';
    assert_null(redeem(&r.tickets, r.policy, wrong, "s1", 1001));
    wrong[ABX__TICKET_TEXT - 1] = '\0';
    assert_null(redeem(&r.tickets, r.policy, wrong, "s1", 1001));
    assert_null(redeem(&r.tickets, r.policy, "", "s1", 1001));
    assert_string_equal(redeem(&r.tickets, r.policy, r.ticket, "s1", 1001), "i0");
    end(&r);
}

TEST(tickets_of_one_identity_are_bounded)
{
    struct rig r;
    char ticket[ABX__TICKET_TEXT + 1];
    begin(&r);
    for (int i = 1; i < ABX__TICKETS_OF_ONE; i++)
        assert_int_equal(abx__tickets_issue(&r.tickets, &r.bond, 1000, ticket), 0);
    assert_int_equal(abx__tickets_issue(&r.tickets, &r.bond, 1000, ticket), -EDQUOT);
    struct abx__ticket_bond other = bond_of(r.policy, 1, "s1");
    assert_int_equal(abx__tickets_issue(&r.tickets, &other, 1000, ticket), 0);
    assert_string_equal(redeem(&r.tickets, r.policy, r.ticket, "s1", 1001), "i0");
    assert_int_equal(abx__tickets_issue(&r.tickets, &r.bond, 1001, ticket), 0);
    assert_int_equal(abx__tickets_issue(&r.tickets, &r.bond, 1001, ticket), -EDQUOT);
    assert_int_equal(abx__tickets_issue(&r.tickets, &r.bond, 1000 + 30000, ticket), 0);
    assert_int_equal(r.tickets.count, 2); /* the time of the others is over */
    end(&r);
}

TEST(tickets_of_all_are_bounded)
{
    enum { MANY = ABX__TICKETS_ALL / ABX__TICKETS_OF_ONE + 1 };
    char ticket[ABX__TICKET_TEXT + 1];
    struct abx__tickets t;
    struct abx_policy *p = policy_of(document(0, MANY, "terminal:*"));
    abx__tickets_init(&t);
    for (size_t i = 0; i < ABX__TICKETS_ALL; i++) {
        struct abx__ticket_bond bond = bond_of(p, i / ABX__TICKETS_OF_ONE, "s1");
        assert_int_equal(abx__tickets_issue(&t, &bond, 1000, ticket), 0);
    }
    struct abx__ticket_bond last = bond_of(p, MANY - 1, "s1");
    assert_int_equal(abx__tickets_issue(&t, &last, 1000, ticket), -ENOSPC);
    abx__tickets_sweep(&t, 1000 + 29999);
    assert_int_equal(t.count, ABX__TICKETS_ALL);
    abx__tickets_sweep(&t, 1000 + 30000);
    assert_int_equal(t.count, 0);
    abx_policy_unref(p);
}

TEST(tickets_go_with_their_session)
{
    struct rig r;
    char other[ABX__TICKET_TEXT + 1];
    begin(&r);
    r.bond.session = ABX_STR("s2");
    assert_int_equal(abx__tickets_issue(&r.tickets, &r.bond, 1000, other), 0);
    abx__tickets_forget_session(&r.tickets, ABX_STR("s1"));
    assert_int_equal(r.tickets.count, 1);
    assert_null(redeem(&r.tickets, r.policy, r.ticket, "s1", 1001));
    assert_string_equal(redeem(&r.tickets, r.policy, other, "s2", 1001), "i0");
    end(&r);
}

TEST(s21_tickets_go_with_a_power_of_their_holder)
{
    static const struct {
        unsigned first;
        const char *scope;
        bool stays;
    } rows[] = {{0, "terminal:*", true}, {0, "*", true}, {0, "files:*", false}, {1, "", false}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct rig r;
        char early[ABX__TICKET_TEXT + 1];
        begin(&r);
        memcpy(early, r.ticket, sizeof(early));
        assert_int_equal(abx__tickets_issue(&r.tickets, &r.bond, 1000, r.ticket), 0);
        struct abx_policy *now = policy_of(document(rows[i].first, 3, rows[i].scope));
        /* shown under the new policy before the walk, and after it */
        assert_int_equal(redeem(&r.tickets, now, early, "s1", 1001) != NULL, rows[i].stays);
        abx__tickets_revoke(&r.tickets, now);
        assert_int_equal(r.tickets.count, rows[i].stays);
        abx_policy_unref(r.policy);
        r.policy = now;
        assert_int_equal(redeem(&r.tickets, now, r.ticket, "s1", 1001) != NULL, rows[i].stays);
        end(&r);
    }
}
