/* SPDX-License-Identifier: MIT */
/* The interactive screen of slub top, by ncurses. */
#include "top.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#if SLUB_TOOL_CURSES
#include <curses.h>

static const char key_help[] =
	"q quit  h help  space now  m units  t groups  "
	"sort: a b c g k l n o p s u v w";

/* The signal that ends it; curses would leave by exit status 1, which says no. */
static volatile sig_atomic_t ended_by;

static void on_signal(int number)
{
	ended_by = number;
}

/* Before newterm(), which takes only those that nobody has. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static void show_help(void)
{
	char *text = NULL;
	size_t length;
	FILE *to = must_have(open_memstream(&text, &length));

	fputs("slub top\n\n  q, ESC  quit (or Ctrl-C)\n  space   look again now\n"
	      "  m       sizes with a letter, or as slabtop has them\n"
	      "  t       memory groups, or caches; n and c sort groups too\n"
	      "  h, ?    this\n\nSort by\n", to);
	sort_print_help(to);
	fputs("\nAny key goes back.", to);
	fclose(to);
	erase();
	addstr(text);
	free(text);
	refresh();
	timeout(-1);
	getch();
}

static void draw_line(int y, const char *line, const struct top *top, bool color)
{
	bool is_title = y == (int)top->titles;

	if (is_title)
		attron(A_REVERSE);
	else if (y < (int)top->titles && color)
		attron(COLOR_PAIR(1));
	mvaddnstr(y, 0, line, COLS);
	if (is_title)
		for (int x = (int)strlen(line); x < COLS; x++)
			addch(' ');
	attrset(A_NORMAL);
}

static void draw(struct snapshot *now, const struct snapshot *before,
		 const struct request *request, struct top *top)
{
	char *text = NULL, *rest;
	size_t length;
	FILE *to = must_have(open_memstream(&text, &length));

	top->columns = (size_t)COLS;
	top->status = top_print(to, now, before, top, (size_t)LINES - 1);
	fclose(to);
	erase();
	rest = text;
	for (int y = 0; rest && y < LINES - 1; y++)
		draw_line(y, strsep(&rest, "\n"), top, request->color);
	free(text);
	attron(A_DIM);
	mvaddnstr(LINES - 1, 0, key_help, COLS - 1);
	attrset(A_NORMAL);
	refresh();
}

/* False: the user wants to go. */
static bool answer_key(struct top *top, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
	case 27:
		return false;
	case 'h':
	case '?':
		show_help();
		break;
	case 't':
		top->groups = !top->groups;
		break;
	case 'm':
		top->human = !top->human;
		break;
	default:
		if (sort_key_is_known(key))
			top->key = (enum sort_key)key;
	}
	return true;
}

static bool open_screen(const struct request *request)
{
	const char *terminal = getenv("TERM");

	catch_signals();
	if (!newterm(terminal, stdout, stdin)) {
		complain("top: cannot use the terminal '%s'; --once prints "
			 "text", terminal ? terminal : "");
		return false;
	}
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	if (request->color && has_colors()) {
		start_color();
		use_default_colors();
		init_pair(1, COLOR_CYAN, -1);
	}
	return true;
}

/*
 * The next key; ERR: the delay is over, or a signal came.  A signal may come before getch() waits,
 * which does not see it then: so no wait is longer than a second.
 */
static int next_key(double left_ms)
{
	int key;

	do {
		timeout(left_ms < 1000 ? (int)left_ms : 1000);
		key = getch();
		left_ms -= 1000;
	} while (key == ERR && left_ms > 0 && !ended_by);
	return key;
}

static int loop(const struct request *request, struct source *source,
		struct top *top)
{
	struct snapshot now, before;
	bool has_before = false, stays = true;
	int status = 0;

	while (stays && !status && !ended_by) {
		status = source_snapshot(source, &now);
		if (status)
			break;
		if (has_before)
			snapshot_continue(&now, &before);
		draw(&now, has_before ? &before : NULL, request, top);
		status = top->status;
		if (has_before)
			snapshot_free(&before);
		before = now;
		has_before = true;
		stays = !status && answer_key(top, next_key(top->delay_seconds * 1000));
	}
	if (has_before)
		snapshot_free(&before);
	return status;
}

/* What is said while the screen is up is shown after it. */
static FILE *real_stderr;
static char *message;
static size_t message_length;

/* At the exit, too: who has no memory ends in the middle of a look. */
static void close_screen(void)
{
	if (!real_stderr)
		return;
	endwin();
	fclose(stderr);
	stderr = real_stderr;
	real_stderr = NULL;
	fputs(message, stderr);
	free(message);
}

int top_screen(const struct request *request, struct top *top)
{
	struct source source;
	int status = source_open(&source, request->command, request->target);
	FILE *said;

	if (status)
		return status;
	said = must_have(open_memstream(&message, &message_length));
	if (!open_screen(request)) {
		fclose(said);
		free(message);
		source_close(&source);
		return STATUS_USAGE;
	}
	real_stderr = stderr;
	stderr = said;
	atexit(close_screen);
	status = loop(request, &source, top);
	close_screen();
	source_close(&source);
	if (ended_by == SIGTERM) {
		signal(SIGTERM, SIG_DFL);
		raise(SIGTERM);
	}
	return status;
}

#else

int top_screen(const struct request *request, struct top *top)
{
	(void)request, (void)top;
	complain("top: built without ncurses; --once prints text");
	return STATUS_USAGE;
}

#endif
