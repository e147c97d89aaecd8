/* SPDX-License-Identifier: MIT */
/* SLUB_ variables that the library does not understand. */
#include "refused.h"
#include "input.h"
#include "slub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#define PREFIX "SLUB_"
#define LIST "OPTIONS"
/* A process may say that all of its memory is its environment; the kernel takes 6 MiB. */
#define ENVIRONMENT_MAX	    (8u << 20)
#define ENVIRONMENT_SECONDS 5.0
/* Of one environment; longer ones are another's bytes, not settings. */
#define REFUSED_MAX	    64
#define SHOWN_MAX	    120

/* As in the library: a '*' ends the beginning of a name. */
static bool is_of_others(const char *name)
{
	static const char *const others[] = {
#define OPTION_OF_OTHERS(name) name,
#include "core/base/option.def"
	};
	char why[SETTING_WHY];

	if (setting_named(name, why) != NR_SETTINGS)
		return false;	/* SLUB_TEST_CPUS and the like */
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		size_t length = strcspn(others[i], "*");

		if (!strncasecmp(name, others[i], length) &&
		    (others[i][length] || !name[length]))
			return true;
	}
	return false;
}

static void refuse(struct refused *refused, const char *head, const char *item,
		   const char *why)
{
	struct refused_one *one;

	if (refused->nr == REFUSED_MAX)
		return;
	refused->ones = must_have(reallocarray(refused->ones, refused->nr + 1, sizeof(*one)));
	one = &refused->ones[refused->nr++];
	one->setting = text_of("%s%.*s%s", head, SHOWN_MAX, item,
			       strlen(item) > SHOWN_MAX ? "..." : "");
	snprintf(one->why, sizeof(one->why), "%s", why);
	clean_string(one->setting);
	clean_string(one->why);
}

/* "name=value", which is taken apart and put together again; @head is what stands before it. */
static void judge_item(struct refused *refused, const char *head, char *item)
{
	char *equals = strchr(item, '=');
	char why[SETTING_WHY] = "";
	enum setting setting;
	bool is_good;

	if (equals)
		*equals = '\0';
	setting = setting_named(item, why);
	if (equals)
		*equals = '=';
	is_good = setting != NR_SETTINGS && equals &&
		  setting_takes(setting, equals + 1, why);
	if (setting != NR_SETTINGS && !equals)
		snprintf(why, sizeof(why), "has no '=' and a value");
	if (!is_good)
		refuse(refused, head, item, why);
}

static void judge_list(struct refused *refused, char *list)
{
	char *rest = list, *item;

	while ((item = strsep(&rest, ",")) != NULL) {
		if (*item || rest)
			judge_item(refused, PREFIX LIST ": ", item);
	}
}

/* An entry of an environment; @is_list: SLUB_OPTIONS alone, else the others. */
static void judge_entry(struct refused *refused, const char *entry, bool is_list)
{
	char *copy, *equals;

	if (strncmp(entry, PREFIX, strlen(PREFIX)))
		return;
	copy = must_have(strdup(entry + strlen(PREFIX)));
	equals = strchr(copy, '=');
	/* "VARIABLE= command" is how a shell, a unit file or a compose file clears it. */
	if (equals && equals[1]) {
		*equals = '\0';
		if (!is_of_others(copy) && !strcasecmp(copy, LIST) == is_list) {
			*equals = '=';
			if (refused->privileged)
				refuse(refused, PREFIX, copy, "the program has more rights "
				       "than its user, so no option is read");
			else if (is_list)
				judge_list(refused, equals + 1);
			else
				judge_item(refused, PREFIX, copy);
		}
	}
	free(copy);
}

static int read_pass(struct refused *refused, const char *path, bool is_list)
{
	struct input_lines input;
	int error = input_lines_open(&input, path, INPUT_FILE, ENVIRONMENT_MAX,
				     ENVIRONMENT_SECONDS);

	if (error)
		return error;
	while (input_line(&input, '\0') >= 0)
		judge_entry(refused, input.line, is_list);
	error = input.error;
	input_lines_close(&input);
	return error;
}

/* As the kernel has told the process. */
static bool is_privileged(pid_t pid)
{
	unsigned long pair[2];
	bool found = false;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
	file = input_kernel(path);
	while (file && !found && fread(pair, sizeof(pair), 1, file) == 1)
		found = pair[0] == AT_SECURE && pair[1];
	if (file)
		fclose(file);
	return found;
}

void refused_of_process(struct refused *refused, pid_t pid)
{
	char path[64];

	*refused = (struct refused){ .privileged = is_privileged(pid) };
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	refused->error = read_pass(refused, path, true);
	if (!refused->error)
		refused->error = read_pass(refused, path, false);
}

void refused_of_own(struct refused *refused)
{
	*refused = (struct refused){ .nr = 0 };
	for (char **entry = environ; entry && *entry; entry++)
		judge_entry(refused, *entry, true);
	for (char **entry = environ; entry && *entry; entry++)
		judge_entry(refused, *entry, false);
}

void refused_free(struct refused *refused)
{
	for (size_t i = 0; i < refused->nr; i++)
		free(refused->ones[i].setting);
	free(refused->ones);
	*refused = (struct refused){ .nr = 0 };
}

void refused_json(struct json *json, const struct refused *refused)
{
	if (refused->error) {
		json_null(json, "refused");
		return;
	}
	json_open_array(json, "refused");
	for (size_t i = 0; i < refused->nr; i++) {
		json_open(json, NULL);
		json_string(json, "setting", refused->ones[i].setting);
		json_string(json, "why", refused->ones[i].why);
		json_close(json);
	}
	json_close(json);
}
