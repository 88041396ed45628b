/* SPDX-License-Identifier: Apache-2.0
 * What the parsers must do with bytes that are just within and just beyond their limits, and what the shim
 * must do without descriptors or memory. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include "../shim.h"

static struct buf b;
static struct frame f;

/* Parses a copy of exactly that size, so that the sanitizer sees any read beyond it. */
static ssize_t parse(const void *bytes, size_t len)
{
	static char *copy;
	ssize_t n;

	free(copy);
	copy = malloc(len ? len : 1);
	memcpy(copy, bytes, len);
	n = frame_parse(copy, len, &f);
	return n;
}

static void build(int fields)
{
	struct field list[FIELDS_MAX + 1];

	for (int i = 0; i < fields; i++)
		list[i] = (struct field){ "ab", (size_t)i % 3 };
	b.len = 0;
	frame_write(&b, FRAME_EXEC, list, fields);
}

static void test_round_trip(void)
{
	build(FIELDS_MAX);
	assert(parse(b.data, b.len) == (ssize_t)b.len && f.type == FRAME_EXEC && f.count == FIELDS_MAX);
	assert(f.fields[0].len == 0 && f.fields[2].len == 2 && !strcmp(f.fields[2].data, "ab"));
	buf_add(&b, "next", 4);
	assert(parse(b.data, b.len) == (ssize_t)b.len - 4);
	build(0);
	assert(parse(b.data, b.len) == 5 && f.count == 0);
	build(FIELDS_MAX + 1);
	assert(parse(b.data, b.len) == -1);
}

static void test_incomplete_at_every_length(void)
{
	build(5);
	for (size_t len = 0; len < b.len; len++)
		assert(parse(b.data, len) == 0);
	assert(parse("\1\0\0\0", 4) == 0); /* the longest */
}

/* A delegate may be given no time. */
static void test_order(void)
{
	struct field fields[EXEC_ENV] = { text("0"), text("p"), text("/bin"), text("0"), text("") };
	struct frame order = { FRAME_EXEC, EXEC_ENV, { { 0 } } };

	memcpy(order.fields, fields, sizeof fields);
	assert(is_exec(&order));
	order.fields[EXEC_TIMEOUT] = text("-1");
	assert(!is_exec(&order));
	order.fields[EXEC_TIMEOUT] = text("1");
	order.count--;
	assert(!is_exec(&order));
}

/* The sanitizers would end the process instead of returning NULL, and with the shim's status. */
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1:exitcode=99";
}

const char *__ubsan_default_options(void)
{
	return __asan_default_options();
}

static void test_out_of_memory(void)
{
	struct buf huge = { 0 };
	char error[128] = "";
	int pipes[2], status;

	assert(!pipe(pipes));
	pid_t pid = fork();
	if (pid == 0) {
		dup2(pipes[1], STDOUT_FILENO);
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO); /* for the sanitizer's warning */
		buf_add(&huge, "", SIZE_MAX / 2);
		_exit(2);
	}
	assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1);
	assert(read(pipes[0], error, sizeof error - 1) > 0);
	assert(!strcmp(error, "{\"cniVersion\":\"1.1.0\",\"code\":999,\"msg\":\"out of memory\"}\n"));
	close(pipes[0]);
	close(pipes[1]);
}

static void test_malformed(void)
{
	static const struct { const char *bytes; size_t len; } bad[] = {
		{ "\0\0\0\0", 4 },                                  /* no type */
		{ "\1\0\0\1", 4 },                                  /* beyond the limit */
		{ "\377\377\377\377\377", 5 },
		{ "\0\0\0\2\2\0", 6 },                              /* cut field length */
		{ "\0\0\0\5\2\0\0\0\0", 9 },                        /* no room for the NUL */
		{ "\0\0\0\6\2\0\0\0\1\0", 10 },                     /* a byte too long */
		{ "\0\0\0\6\2\0\0\0\0x", 10 },                      /* not a NUL */
		{ "\0\0\0\12\2\377\377\377\377\0\0\0\0\0", 14 },    /* wraps around on 32 bits */
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert(parse(bad[i].bytes, bad[i].len) == -1);
}

static void test_numbers(void)
{
	static const struct { const char *text; int number; } cases[] = {
		{ "0", 0 }, { "007", 7 }, { "999999999", 999999999 }, { "1000000000", -1 },
		{ "", -1 }, { "-1", -1 }, { " 1", -1 }, { "1 ", -1 }, { "0x1", -1 },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert(field_number(text((char *)cases[i].text)) == cases[i].number);
	assert(field_number((struct field){ "1\0002", 3 }) == -1);
	assert(!is_text((struct field){ "a\0b", 3 }) && is_text((struct field){ "ab", 2 }));
}

static void test_utf8(void)
{
	static const struct { const char *bytes; size_t len; } cases[] = {
		{ "", 1 }, { "a", 1 }, { "\177", 1 },
		{ "\302\200", 2 }, { "\337\277", 2 },                 /* U+0080, U+07FF */
		{ "\340\240\200", 3 }, { "\355\237\277", 3 },         /* U+0800, U+D7FF */
		{ "\356\200\200", 3 }, { "\357\277\277", 3 },         /* U+E000, U+FFFF */
		{ "\360\220\200\200", 4 }, { "\364\217\277\277", 4 }, /* U+10000, U+10FFFF */
		{ "\200", 0 }, { "\277", 0 }, { "\376", 0 }, { "\377", 0 },
		{ "\300\200", 0 }, { "\301\277", 0 },                 /* overlong: U+0000, U+007F */
		{ "\340\237\277", 0 }, { "\360\217\277\277", 0 },    /* overlong: U+07FF, U+FFFF */
		{ "\355\240\200", 0 }, { "\355\277\277", 0 },         /* surrogates */
		{ "\364\220\200\200", 0 }, { "\365\200\200\200", 0 }, /* beyond U+10FFFF */
		{ "\302", 0 }, { "\340\240", 0 }, { "\360\220\200", 0 }, /* cut */
		{ "\302a", 0 }, { "\340\240a", 0 }, { "\360\220\200a", 0 }, { "\360\220\200\300", 0 },
	};
	char *exact;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		exact = strdup(cases[i].bytes);
		assert(utf8_length(exact) == cases[i].len);
		free(exact);
	}
}

static void test_text(void)
{
	char digits[NUMBER_SIZE], small[8];
	struct buf line = { 0 };

	assert(!strcmp(number(digits, INT64_MIN).data, "-9223372036854775808") && number(digits, 0).len == 1);
	buf_print(&line, "%s, %d and %.*s%s|%.*s.", "one", INT_MIN, 2, "three", "", 9, "4");
	assert(!strcmp(line.data, "one, -2147483648 and th|4.") && line.len == strlen(line.data));
	print(small, sizeof small, "%s%d", "1234", 56789);
	assert(!strcmp(small, "1234567"));
	print(small, sizeof small, "%s", "12345678");
	assert(!strcmp(small, "1234567"));
	print(small, sizeof small, "%s", "");
	assert(!*small);
	line.len = 0;
	buf_json(&line, "\"a\\\n\xff\xc3\xa9");
	assert(!strcmp(line.data, "\\\"a\\\\ \\ufffd\xc3\xa9"));
	line.len = 0;
	buf_json(&line, "\x7f\xc2\x9b\xe2\x80\xae\xe2\x81\xa6\xef\xbb\xbf\xe2\x80\xa6\xe2\x82\xac\xc2\xa0");
	assert(!strcmp(line.data, "     \xe2\x80\xa6\xe2\x82\xac\xc2\xa0"));
	buf_free(&line);
}

static void test_version(void)
{
	static struct call call = { .cni_version = "1.1.0" };

	call_find_version(&call, "{\"cniVersion\":7,\"cniVersion\" : \"0.4.0\"}");
	assert(!strcmp(call.cni_version, "0.4.0"));
	call_find_version(&call, "{\"cniVersion\":\"1234567890123456789012345678901\"}");
	assert(strlen(call.cni_version) == 31);
	call_find_version(&call, "{\"cniVersion\":\"12345678901234567890123456789012\"}");
	assert(strlen(call.cni_version) == 31);
}

static void test_netlink_chain(void)
{
	uint32_t words[8] = { 16, 0, 7, 0, 16, 0, 9, 0 };
	const char *bytes = (const char *)words;
	struct nlmsghdr last;

	assert(!netlink_last(bytes, 16, &last) && last.nlmsg_seq == 7);
	assert(!netlink_last(bytes, 32, &last) && last.nlmsg_seq == 9);
	assert(netlink_last(bytes, 0, &last) && netlink_last(bytes, 15, &last));
	assert(netlink_last(bytes, 17, &last) && netlink_last(bytes, 31, &last));
	words[0] = 17; /* its padding leaves no room for a second one, but is not needed at the end */
	assert(!netlink_last(bytes, 17, &last) && netlink_last(bytes, 32, &last));
	words[0] = 0xffffffff;
	assert(netlink_last(bytes, 32, &last));
}

/* Judges one message of this type: its fixed part, which begins with the family, and words of attributes. */
static bool message_allowed(int type, int family, const uint32_t *words, size_t count, bool *only_reads)
{
	struct { struct nlmsghdr head; uint32_t words[16]; } *m = calloc(1, sizeof *m);
	size_t fixed = type == RTM_GETLINK ? 4 : type == RTM_GETADDR ? 2 : 3;
	char *exact;
	struct nlmsghdr last;

	m->head.nlmsg_type = (uint16_t)type;
	m->head.nlmsg_len = (uint32_t)(sizeof m->head + 4 * (fixed + count));
	m->words[0] = (uint32_t)family;
	for (size_t i = 0; i < count; i++)
		m->words[fixed + i] = words[i];
	exact = malloc(m->head.nlmsg_len);
	memcpy(exact, m, m->head.nlmsg_len);
	assert(!netlink_last(exact, m->head.nlmsg_len, &last));
	bool allowed = netlink_allowed(exact, m->head.nlmsg_len, only_reads);
	free(exact);
	free(m);
	return allowed;
}

static void test_netlink_messages(void)
{
	uint32_t word = 4 | IFLA_IFNAME << 16;
	bool reads;

	for (int type = 0; type < 0x10000; type++) {
		bool is_read = type == RTM_GETLINK || type == RTM_GETADDR || type == RTM_GETROUTE;
		bool is_change = type == RTM_NEWROUTE || type == RTM_DELROUTE;
		assert(message_allowed(type, AF_INET, NULL, 0, &reads) == (is_read || is_change));
		assert(!is_change || !reads);
		assert(!is_read || reads);
	}
	for (int family = 0; family < 256; family++)
		assert(message_allowed(RTM_NEWROUTE, family, NULL, 0, &reads) ==
		       (family == AF_UNSPEC || family == AF_INET || family == AF_INET6));
	for (uint32_t type = 0; type < 0x10000; type++) {
		word = 4 | type << 16;
		assert(message_allowed(RTM_GETLINK, 0, &word, 1, &reads) == ((type & 0x3fff) == IFLA_IFNAME));
		assert(!message_allowed(RTM_GETADDR, 0, &word, 1, &reads));
		assert(!message_allowed(RTM_GETROUTE, 0, &word, 1, &reads));
	}
}

/* A route with these words of attributes. */
#define ROUTE_OF(...) message_allowed(RTM_NEWROUTE, AF_INET, (const uint32_t[]){ __VA_ARGS__ }, \
				      sizeof (const uint32_t[]){ __VA_ARGS__ } / 4, &reads)
#define WORD(length, type) ((length) | (uint32_t)(type) << 16)

static void test_netlink_routes(void)
{
	static const int allowed[] = { RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_PREFSRC, RTA_METRICS, RTA_MULTIPATH,
				       RTA_FLOW, RTA_TABLE, RTA_VIA, RTA_PREF, RTA_NH_ID };
	uint32_t word;
	bool reads;

	for (uint32_t type = 0; type < 0x10000; type++) {
		bool expected = false;
		for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
			expected = expected || (type & 0x3fff) == (uint32_t)allowed[i];
		word = 4 | type << 16;
		assert(message_allowed(RTM_DELROUTE, AF_INET6, &word, 1, &reads) == expected);
		bool of_hop = (type & 0x3fff) == RTA_GATEWAY || (type & 0x3fff) == RTA_VIA || (type & 0x3fff) == RTA_FLOW;
		assert(ROUTE_OF(WORD(16, RTA_MULTIPATH), 12, 1, WORD(4, type)) == of_hop);
	}
	assert(ROUTE_OF(WORD(8, RTA_OIF), 1, WORD(5, RTA_DST), 0) && ROUTE_OF(WORD(20, RTA_MULTIPATH), 8, 1, 8, 2));
	assert(!ROUTE_OF(WORD(3, RTA_OIF)) && !ROUTE_OF(WORD(5, RTA_OIF)) && !ROUTE_OF(WORD(0, RTA_OIF), 0));
	assert(!ROUTE_OF(WORD(8, RTA_MULTIPATH), 8) && !ROUTE_OF(WORD(12, RTA_MULTIPATH), 7, 1));
	assert(!ROUTE_OF(WORD(12, RTA_MULTIPATH), 9, 1) && !ROUTE_OF(WORD(12, RTA_MULTIPATH), 0, 1));
	assert(!ROUTE_OF(WORD(16, RTA_MULTIPATH), 12, 1, WORD(5, RTA_GATEWAY)));
}

/* A rest of a message that is too short for an attribute is not read, but refused. */
static void test_netlink_rest(void)
{
	const size_t whole = sizeof(struct nlmsghdr) + sizeof(struct rtmsg);
	bool reads;

	for (size_t rest = 0; rest < 4; rest++) {
		struct nlmsghdr head = { .nlmsg_len = (uint32_t)(whole + rest), .nlmsg_type = RTM_NEWROUTE };
		char *exact = calloc(1, whole + rest);
		memcpy(exact, &head, sizeof head);
		assert(netlink_allowed(exact, whole + rest, &reads) == !rest);
		free(exact);
	}
}

/* Every message of an order counts, wherever it is. */
static void test_netlink_several(void)
{
	struct { struct nlmsghdr head; struct ifinfomsg link; } all[3];
	bool reads;

	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 3; j++) {
			all[j].head = (struct nlmsghdr){ .nlmsg_len = sizeof *all, .nlmsg_type = RTM_GETLINK };
			all[j].link = (struct ifinfomsg){ .ifi_change = WORD(4, RTA_PREF) }; /* an attribute in a route */
		}
		assert(netlink_allowed((const char *)all, sizeof all, &reads) && reads);
		all[i].head.nlmsg_type = RTM_DELROUTE;
		assert(netlink_allowed((const char *)all, sizeof all, &reads) && !reads);
		all[i].head.nlmsg_type = RTM_DELLINK;
		assert(!netlink_allowed((const char *)all, sizeof all, &reads));
	}
	all[0].head = (struct nlmsghdr){ .nlmsg_len = 28, .nlmsg_type = RTM_GETLINK }; /* no whole fixed part */
	assert(!netlink_allowed((const char *)all, 28, &reads));
}

/* An EXEC order of these variables, up to a NULL. */
static bool allowed(const char *command, const char *id, const char *netns, const char *entry)
{
	static struct call call = { .command = "DEL", .container_id = "c1", .netns = "" };
	struct frame order = { FRAME_EXEC, EXEC_ENV, { { "0", 1 }, { "p", 1 }, { "/bin", 4 }, { "1", 1 }, { "", 0 } } };
	struct buf message = { 0 };
	char variables[3][64];
	const char *const list[] = { command, id, netns };
	static const char *const names[] = { "COMMAND", "CONTAINERID", "NETNS" };

	for (int i = 0; i < 3; i++) {
		print(variables[i], sizeof variables[i], "CNI_%s=%s", names[i], list[i]);
		order.fields[order.count++] = text(variables[i]);
	}
	if (entry)
		order.fields[order.count++] = text(entry);
	bool is_allowed = order_allowed(&call, &order, &message);
	assert(is_allowed == !message.len);
	buf_free(&message);
	return is_allowed;
}

static void test_order_rules(void)
{
	assert(allowed("DEL", "c1", "", NULL) && allowed("DEL", "c2", "", NULL));
	assert(!allowed("ADD", "c1", "", NULL) && !allowed("", "c1", "", NULL) && !allowed("DEL GC", "c1", "", NULL));
	assert(!allowed("DEL", "c1", OWN_NETNS, NULL) && !allowed("DEL", "c2", OWN_NETNS, NULL));
	assert(!allowed("DEL", "c2", "/nonexistent", NULL));
	assert(!allowed("DEL", "c1", "", "CNI_COMMAND=ADD") && allowed("ADD", "c1", "", "CNI_COMMAND=DEL"));
	assert(!allowed("DEL", "c1", "", "LD_PRELOAD=x") && !allowed("DEL", "c1", "", "CNI_X"));
}

static void test_plan_step(void)
{
	static struct { int type; const char *group; bool is_step; } cases[] = {
		{ FRAME_EXEC, "0", true }, { FRAME_EXEC, "999999999", true }, { FRAME_EXEC, "-1", false },
		{ FRAME_EXEC, "", false }, { FRAME_RECORD, "0", false }, { FRAME_PLAN, "0", false },
	};
	struct plan plan = { 0 };
	struct frame step;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct field fields[EXEC_ENV] = { text(cases[i].group), text("p"), text("/bin"), text("1"), text("") };
		plan.bytes.len = 0;
		frame_write(&plan.bytes, cases[i].type, fields, EXEC_ENV);
		assert(plan_step(&plan, 0, &step) == (cases[i].is_step ? plan.bytes.len : 0));
		plan.bytes.len--;
		assert(!plan_step(&plan, 0, &step));
	}
	buf_free(&plan.bytes);
}

static uint32_t crc_of(const char *bytes, size_t len)
{
	uint32_t sum = ~0u;

	for (size_t i = 0; i < 8 * len; i++) {
		sum ^= (uint32_t)(bytes[i / 8] >> i % 8 & 1);
		sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
	}
	return ~sum;
}

/* Appends a plan of these frames: e for EXEC, r for RECORD, f for FIND. */
static void add_plan(struct buf *bytes, const char *version, const char *id, const char *frames, bool has_sum)
{
	struct field step[EXEC_ENV] = { text("0"), text("p"), text("/bin"), text("1"), text("") };
	char steps[NUMBER_SIZE], sum[9] = "00000000";
	size_t start = bytes->len;
	int count = 0;

	frame_write(bytes, FRAME_PLAN, (struct field[]){ text(version), text(id), text("eth0"), text("b"), text("1") }, 5);
	for (; *frames; frames++) {
		int type = *frames == 'e' ? FRAME_EXEC : *frames == 'r' ? FRAME_RECORD : FRAME_FIND;
		frame_write(bytes, type, step, EXEC_ENV);
		count += type == FRAME_EXEC;
	}
	if (has_sum)
		snprintf(sum, sizeof sum, "%08x", crc_of(bytes->data + start, bytes->len - start));
	frame_write(bytes, FRAME_PLAN_END, (struct field[]){ number(steps, count), text(sum) }, 2);
}

#define OTHER_VERSION PLAN_VERSION "0"

static void test_plans(void)
{
	static const struct { const char *version, *id, *frames; bool has_sum, is_plan, hides_earlier; } cases[] = {
		{ PLAN_VERSION, "c1", "", true, true, true }, { PLAN_VERSION, "c1", "er", true, true, true },
		{ PLAN_VERSION, "c1", "e", true, true, true }, { PLAN_VERSION, "c1", "er", false, false, false },
		{ PLAN_VERSION, "c1", "re", true, false, false }, { PLAN_VERSION, "c1", "rr", true, false, false },
		{ PLAN_VERSION, "c1", "ef", true, false, false }, { PLAN_VERSION, "c1", "erf", true, false, false },
		{ PLAN_VERSION, "c2", "er", true, false, false }, { OTHER_VERSION, "c1", "er", true, false, true },
		{ OTHER_VERSION, "c2", "ff", true, false, true }, { OTHER_VERSION, "c1", "er", false, false, false },
	};
	struct plan plan = { 0 };

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		plan.bytes.len = 0;
		add_plan(&plan.bytes, cases[i].version, cases[i].id, cases[i].frames, cases[i].has_sum);
		assert(plan_parse(&plan, "c1", "eth0") == cases[i].is_plan);
		assert(!cases[i].is_plan || (plan.attempted == 1 && plan.steps == (*cases[i].frames == 'e')));
		plan.bytes.len = 0;
		add_plan(&plan.bytes, PLAN_VERSION, "c1", "eer", true);
		add_plan(&plan.bytes, cases[i].version, cases[i].id, cases[i].frames, cases[i].has_sum);
		assert(plan_parse(&plan, "c1", "eth0") == (cases[i].is_plan || !cases[i].hides_earlier));
		assert(cases[i].hides_earlier || (plan.attempted == INT_MAX && plan.steps == 2));
	}
	buf_free(&plan.bytes);
}

/* No plan is one that is truncated anywhere, or of which one bit is another. */
static void test_damaged_plans(void)
{
	struct plan plan = { 0 };
	size_t whole;

	add_plan(&plan.bytes, PLAN_VERSION, "c1", "eer", true);
	whole = plan.bytes.len;
	for (size_t bit = 0; bit < 8 * whole; bit++) {
		plan.bytes.data[bit / 8] ^= (char)(1 << bit % 8);
		assert(!plan_parse(&plan, "c1", "eth0"));
		plan.bytes.data[bit / 8] ^= (char)(1 << bit % 8);
	}
	assert(plan_parse(&plan, "c1", "eth0"));
	while (plan.bytes.len--)
		assert(!plan_parse(&plan, "c1", "eth0"));
	plan.bytes.len = whole;
	buf_free(&plan.bytes);
}

/* Links, lists and search paths are read into memory, which is freed. */
static void test_trust(void)
{
	static struct call call = { .command = "DEL", .path = "/bin", .checks_owners = true };
	struct buf path = { 0 }, message = { 0 };
	char plugin[PATH_SIZE];

	assert(!setenv("PLEXUS_PLUGIN_DIRS", "/etc/passwd", 1));
	trusted_path(&call, "/etc:/bin/", &path);
	assert(!strcmp(path.data, "/bin/"));
	assert(!strcmp(plugin_find(&call, text("no-plugin"), "/bin", plugin, &message), "missing"));
	assert(!strcmp(message.data, "no plugin \"no-plugin\" in \"/bin\""));
	buf_free(&path);
	buf_free(&message);
	assert(!unsetenv("PLEXUS_PLUGIN_DIRS"));
}

static int open_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 64; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void test_own_netns(void)
{
	static struct call call;
	struct buf links = { 0 }, id = { 0 };
	char path[64];
	int before = open_descriptors();

	assert(netns_inspect(&call, OWN_NETNS, &links) == NETNS_OWN && !links.len);
	assert(netns_inspect(&call, "/proc/self/ns/mnt", &links) == NETNS_GONE && !links.len);
	netns_process(OWN_NETNS, &id);
	netns_process("/proc/self/ns/mnt", &id);
	print(path, sizeof path, "/proc/%d/ns/net", getpid());
	assert(netns_inspect(&call, path, NULL) == NETNS_OWN);
	netns_process(path, &id);
	assert(!id.len);
	assert(open_descriptors() == before);
}

/* The kernel reports the directory of a process that has ended in another way than one that is not there. */
static void test_netns_of_ended_process(void)
{
	static struct call call;
	char path[64];
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	print(path, sizeof path, "/proc/%d", pid);
	int process = open(path, O_PATH | O_CLOEXEC);
	assert(process >= 0 && !kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
	print(path, sizeof path, "/proc/self/fd/%d/ns/net", process);
	assert(netns_inspect(&call, path, NULL) == NETNS_GONE);
	close(process);
}

/* A failed connect() or netlink request must not blame the descriptor -1. What cannot be opened now may be there. */
static void test_no_descriptor_left(void)
{
	static struct { struct nlmsghdr head; struct ifinfomsg link; } dump = {
		{ sizeof dump, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0 }, { 0 } };
	static struct call call = { .netns = OWN_NETNS, .ifname = "eth0" };
	struct frame order = { FRAME_NETLINK, 2, { text(OWN_NETNS), { (char *)&dump, sizeof dump } } };
	struct netlink_result r;
	struct rlimit limit, few = { .rlim_cur = 64 };
	int last = -1;

	assert(!getrlimit(RLIMIT_NOFILE, &limit));
	few.rlim_max = limit.rlim_max;
	assert(!setrlimit(RLIMIT_NOFILE, &few));
	for (int fd; (fd = dup(2)) >= 0; last = fd)
		;
	assert(session_with_daemon(&call) == SESSION_UNREACHABLE);
	assert(!strcmp(call.trouble, strerror(EMFILE)));
	for (int left = 0; left < 2; left++) {
		assert(!left || !close(last));
		assert(netns_inspect(&call, OWN_NETNS, NULL) == NETNS_UNKNOWN);
		assert(!strcmp(netns_doubt(&call), "its network namespace cannot be inspected"));
		netlink_order(&call, &order, &r);
		assert(r.error == EMFILE && !strcmp(r.stage, "open") && !r.reply.len);
		assert(!strcmp(r.message, "cannot open the network namespace"));
	}
	assert(!close(last - 1)); /* with two, it opens that namespace, but not the way back */
	netlink_order(&call, &order, &r);
	assert(r.error == EMFILE && !strcmp(r.stage, "open") && !r.reply.len);
	assert(!strcmp(r.message, "netlink request failed"));
	assert(!setrlimit(RLIMIT_NOFILE, &limit));
}

int main(void)
{
	test_round_trip();
	test_incomplete_at_every_length();
	test_order();
	test_out_of_memory();
	test_malformed();
	test_numbers();
	test_utf8();
	test_text();
	test_version();
	test_netlink_chain();
	test_netlink_messages();
	test_netlink_routes();
	test_netlink_rest();
	test_netlink_several();
	test_order_rules();
	test_plan_step();
	test_plans();
	test_damaged_plans();
	test_trust();
	test_own_netns();
	test_netns_of_ended_process();
	test_no_descriptor_left();
	return 0;
}
