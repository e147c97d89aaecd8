/* SPDX-License-Identifier: MIT */
/*
 * The last step of a shell script, as wrappers and shims have it: `exec PROGRAM "$@"`.  A shell
 * can do anything before, so this is only told where the text leaves no doubt.
 */
#include "input.h"
#include "program.h"
#include "script.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPT_BYTES_MAX ((size_t)1 << 20)

/* Is @word somewhere in @text, as a word? */
static bool has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
		bool begins = at == text || strchr(" \t\n;&|({`", at[-1]);

		if (begins && (!at[length] || strchr(" \t\n;&|)}`\\", at[length])))
			return true;
	}
	return false;
}

/* Comments, and blank lines, become nothing: @text is shortened, its last line returned. */
static char *last_line(char *text)
{
	char *to = text, *last = text, *line = text;

	while (*line) {
		size_t length = strcspn(line, "\n"), blanks = strspn(line, " \t");
		bool ends = line[length] == '\n';
		char *next = line + length + ends;

		/* What goes on behind a backslash belongs to the line before. */
		if (blanks < length && line[blanks] != '#') {
			if (to == text || to < text + 2 || to[-2] != '\\')
				last = to;
			memmove(to, line, length);
			to += length;
			*to++ = '\n';
		}
		line = next;
	}
	if (to > text)
		to[-1] = '\0';
	return last;
}

/* The word at *@at without its quotes; false: the shell makes something else of it. */
static bool take_word(const char **at, char *word, size_t size)
{
	const char *s = *at;
	size_t length = 0;
	char quote = 0;

	for (; *s && (quote || !strchr(" \t\n", *s)); s++) {
		if (quote ? *s == quote : *s == '"' || *s == '\'') {
			quote = quote ? 0 : *s;
			continue;
		}
		if (strchr("$`\\", *s) || (!quote && strchr("*?[]{}()<>|&;~=!#", *s)) ||
		    length == size - 1)
			return false;
		word[length++] = *s;
	}
	word[length] = '\0';
	*at = s + strspn(s, " \t");
	return length && !quote;
}

/* Is the rest of the line arguments alone? */
static bool is_arguments(const char *rest)
{
	for (const char *s = rest; *s; s++) {
		if (strchr(";|`\n", *s) && !(*s == '\n' && s > rest && s[-1] == '\\'))
			return false;
		if (*s == '&' && (s == rest || s[-1] != '>'))
			return false;
	}
	return true;
}

/* The program of the last line in @word; false: it cannot be told. */
static bool read_last(char *text, char *word, size_t size)
{
	char *last = last_line(text);
	const char *at = last + strspn(last, " \t");
	bool has_exec = !strncmp(at, "exec", 4) && strchr(" \t", at[4]);

	if (has_exec)
		at += 4 + strspn(at + 4, " \t");
	if (!take_word(&at, word, size) || *word == '-' || !is_arguments(at))
		return false;
	/* A name alone may be a function or a word of the shell's own. */
	if (!has_exec && !strchr(word, '/'))
		return false;
	/* What stands before may end it, or change what the name means. */
	*last = '\0';
	if (has_word(text, "exec") || strstr(text, "<<") || strstr(text, "LD_PRELOAD"))
		return false;
	if (!strchr(word, '/'))
		return !strstr(text, "PATH=");
	return *word == '/' || !has_word(text, "cd");
}

/* Options that leave a script a script; busybox is given the name that it goes by. */
static bool is_plain(const char *argument)
{
	return *argument != '-' ||
	       strspn(argument + 1, "aefhuvxl") == strlen(argument + 1);
}

int script_step_shell(struct script_step *step)
{
	char word[PATH_MAX], *text, *found = NULL;
	size_t size;
	int error = 0;
	bool known;

	step->drops_preload = false;
	snprintf(step->why, sizeof(step->why), "a shell decides what it runs in the end");
	if (step->is_vague || !is_plain(step->argument))
		return 1;
	text = input_all(step->script, SCRIPT_BYTES_MAX, &size, &error);
	known = text && strlen(text) == size && read_last(text, word, sizeof(word));
	free(text);
	if (!known)
		return 1;
	if (strchr(word, '/'))
		error = program_why_not(word);
	else
		found = program_search(word, getenv("PATH"), &error);
	snprintf(step->next, sizeof(step->next), "%s", found ? found : word);
	free(found);
	step->is_vague = true;
	if (error)
		snprintf(step->why, sizeof(step->why), "its last step is '%.200s': %s", word,
			 strerror(error));
	return error ? 1 : 0;
}
