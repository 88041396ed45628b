/* SPDX-License-Identifier: Apache-2.0
 * Teardown plans: a complete DEL with no engine. They are written before anything is attached. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "shim.h"

#define PLAN_CAP (64u << 20)

/* As zlib's: the polynomial of IEEE 802.3, reflected. */
static uint32_t crc32(const char *bytes, size_t len)
{
	uint32_t crc = ~0u;

	for (size_t i = 0; i < len; i++) {
		crc ^= (unsigned char)bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

static int same(struct field a, struct field b)
{
	return a.len == b.len && !memcmp(a.data, b.data, a.len);
}

/* Reads a whole plan before any of it is carried out. Returns what is wrong with it, or NULL. */
const char *plan_parse(struct field file, struct field id, struct field ifname, struct plan *p)
{
	struct frame f;
	struct order o;
	size_t at;
	ssize_t n = frame_parse(file.data, file.len, &f);
	char crc[9];

	if (n <= 0 || f.type != FRAME_PLAN || f.count != 3)
		return "it does not begin like one";
	if (!same(f.fields[0], (struct field){ PROTOCOL_VERSION, sizeof PROTOCOL_VERSION - 1 }))
		return "its version is unknown";
	if (!same(f.fields[1], id) || !same(f.fields[2], ifname))
		return "it is another attachment's";
	at = p->header = (size_t)n;
	for (p->count = 0; (n = frame_parse(file.data + at, file.len - at, &f)) > 0; at += (size_t)n) {
		if (f.type != FRAME_EXEC)
			break;
		if (p->count == PLAN_STEPS_MAX || order_parse(&f, &o))
			return "it holds a malformed or surplus step";
		p->step[p->count].at = at;
		p->step[p->count].failed = 0;
		p->step[p->count++].len = (size_t)n;
	}
	if (n <= 0 || f.type != FRAME_PLAN_END || f.count != 2 || at + (size_t)n != file.len)
		return "it is cut short or overwritten";
	snprintf(crc, sizeof crc, "%08x", crc32(file.data, at));
	if (field_number(f.fields[0]) != (int)p->count || !same(f.fields[1], (struct field){ crc, 8 }))
		return "its count or checksum does not match";
	return NULL;
}

/* Writes the plan anew with the steps that still have to be done. A failure here leaves the old
 * plan, which then only repeats what succeeded: DELs can be repeated. */
static void keep_failed(const char *path, const char *file, const struct plan *p)
{
	static struct buf b;
	char temp[PATH_MAX + 8], crc[9];
	int64_t count = 0;
	size_t start;
	int fd;

	buf_add(&b, file, p->header);
	for (size_t i = 0; i < p->count; i++) {
		if (p->step[i].failed)
			buf_add(&b, file + p->step[i].at, p->step[i].len);
		count += p->step[i].failed;
	}
	snprintf(crc, sizeof crc, "%08x", crc32(b.data, b.len));
	start = frame_begin(&b, FRAME_PLAN_END);
	frame_number(&b, count);
	frame_field(&b, crc, 8);
	frame_end(&b, start);
	snprintf(temp, sizeof temp, "%s.tmp", path);
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	if (write_all(fd, b.data, b.len) || fsync(fd) || close(fd) || rename(temp, path))
		unlink(temp);
}

/* Appends `type: what it said`, on one line and not too long. Delegates say it on stdout. */
static void describe(struct buf *text, const struct order *o, const struct exec_result *r)
{
	const struct buf *said = r->out.len ? &r->out : &r->err;
	const char *from = r->message[0] || !said->len ? r->message : said->data;
	int blank = 1;

	buf_text(text, text->len ? "; " : "");
	buf_text(text, o->type.data);
	buf_text(text, ": ");
	for (size_t end = text->len + 300; *from && text->len < end; from++) {
		int space = (unsigned char)*from <= ' ';

		if (!space || !blank)
			buf_add(text, space ? " " : from, 1);
		blank = space;
	}
	if (from == r->message && !*from)
		buf_text(text, "it failed and said nothing");
}

/* Runs step i unless an earlier one of its group failed; returns true when it has to be kept. */
static int step_fails(const char *file, const struct plan *p, size_t i, struct buf *text)
{
	static struct exec_result r;
	static char netns[PATH_MAX + 16];
	struct frame f, earlier;
	struct order o;

	frame_parse(file + p->step[i].at, p->step[i].len, &f);
	for (size_t j = 0; j < i; j++) {
		if (!p->step[j].failed)
			continue;
		frame_parse(file + p->step[j].at, p->step[j].len, &earlier);
		if (same(earlier.fields[0], f.fields[0]))
			return 1;
	}
	snprintf(netns, sizeof netns, "CNI_NETNS=%s", setting("CNI_NETNS", ""));
	for (int e = 5; e < f.count; e++)
		if (!strncmp(f.fields[e].data, netns, 10))
			f.fields[e] = (struct field){ netns, strlen(netns) };
	order_parse(&f, &o);
	exec_order(&o, &r);
	if (!strcmp(r.outcome, "exited") && r.code == 0)
		return 0;
	describe(text, &o, &r);
	return 1;
}

/* Delegates get the namespace of today's call, or none: some fail or worse on a stale path. */
static void settle_netns(void)
{
	const char *path = setting("CNI_NETNS", "");
	int fd = *path && strlen(path) < PATH_MAX ? netns_open(path) : -1;

	if (fd >= 0)
		close(fd);
	else if (setenv("CNI_NETNS", "", 1))
		fail(999, "out of memory");
}

/* Reads and checks the plan at `path`. Returns 0, or the CNI error code to report; a plan that does
 * not exist is one of no steps. */
static int plan_load(const char *path, struct buf *file, struct plan *p, struct buf *text)
{
	const char *id = setting("CNI_CONTAINERID", ""), *ifname = setting("CNI_IFNAME", "");
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const char *problem;

	p->count = 0;
	buf_reserve(file, 0);
	buf_reserve(text, 2 * PATH_MAX);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || read_upto(fd, file, PLAN_CAP, -1)) {
		text->len = (size_t)sprintf(text->data, "cannot read %s: %s", path, why(errno));
		return 5;
	}
	close(fd);
	problem = plan_parse((struct field){ file->data, file->len }, (struct field){ id, strlen(id) },
			     (struct field){ ifname, strlen(ifname) }, p);
	if (!problem)
		return 0;
	text->len = (size_t)sprintf(text->data, "teardown plan %s is damaged: %s; it was kept: start plexusd "
				    "to detach from the record, or detach by hand", path, problem);
	return 6;
}

/* Carries out what the plan still holds. Returns 0 when nothing is attached any more, else the CNI
 * error code to report; `text` says why. */
int plan_replay(struct buf *text)
{
	static struct buf file;
	static struct plan p;
	static char path[PATH_MAX], record[PATH_MAX];
	const char *id = setting("CNI_CONTAINERID", ""), *ifname = setting("CNI_IFNAME", "");
	const char *problem = sandbox_problem();
	int code, failed = 0;

	if (problem) {
		buf_text(text, problem);
		return 4;
	}
	state_path(path, "%s@%s.teardown", id, ifname);
	state_path(record, "%s@%s.json", id, ifname);
	code = plan_load(path, &file, &p, text);
	if (code || !file.len)
		return code;
	settle_netns();
	for (size_t i = 0; i < p.count; i++)
		failed += p.step[i].failed = step_fails(file.data, &p, i, text);
	if (failed) {
		keep_failed(path, file.data, &p);
		return 102;
	}
	if ((unlink(record) && errno != ENOENT) || unlink(path)) {
		text->len = (size_t)sprintf(text->data, "all detached, but cannot remove %s: %s", path, why(errno));
		return 5;
	}
	return 0;
}
