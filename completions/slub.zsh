#compdef slub
# SPDX-License-Identifier: MIT
# Completion of the slub command for zsh.  What there is, is asked of the command itself.

_slub_pids()
{
	local -a found
	local comm

	for comm in /proc/<->/comm(N); do
		found+=("${comm:h:t}:$(<$comm)") 2>/dev/null
	done
	_describe -t processes process found
}

# Each long option of a command with what the help says of it: name:meaning, or name=:meaning.
_slub_options()
{
	slub $1 --help 2>/dev/null | awk -F '  +' '{
		for (i = 2; i <= NF; i++) {
			if ($i !~ /^(-[A-Za-z0-9], )?--[a-z0-9]/)
				continue
			name = $i
			sub(/^-[A-Za-z0-9], /, "", name)
			needs = name ~ /^[a-z0-9_-]+=/ ? "=" : ""
			sub(/[=[].*/, "", name)
			print name needs ":" ($(i + 1) ~ /^-/ ? "" : $(i + 1))
		}
	}'
	[[ $1 == run ]] || return
	print -r -- "--:the command follows"
	slub options --all 2>/dev/null | awk -F '  +' 'NR > 1 {
		sub("SLUB_", "", $1)
		print "--" tolower($1) ($3 == "0|1" ? "" : "=") ":" $4 }'
}

# The range of an option of `slub run`, as `slub options` prints it.
_slub_range()
{
	slub options --all 2>/dev/null | awk -v name="$1" '
		"--" tolower(substr($1, 6)) == name { print $3 }'
}

# What an option may be; false: it takes no value.
_slub_value()
{
	local command=$1 option=$2 range
	local -a found

	case $option in
	(-p|--process) _alternative 'processes:process:_slub_pids' 'files:file:_files'; return 0 ;;
	(--color) compadd -- always never auto; return 0 ;;
	(--sort)
		found=(${(f)"$(slub $command --help 2>/dev/null | awk -F '  +' '{
			for (i = 1; i < NF; i++)
				if ($i ~ /^[a-z]$/)
					print $i ":" $(i + 1) }')"})
		_describe -t keys key found
		return 0
		;;
	(--textfile|--output) _files; return 0 ;;
	(-N|--lines|--watch|--delay|--columns|--seconds|--bytes) return 0 ;;
	(--timeout|--wake-after|--node) return 0 ;;
	esac
	[[ $command == run && $option == --* ]] || return 1
	range=$(_slub_range $option)
	case $range in
	(''|'0|1') return 1 ;;
	(FILE) _alternative 'words:word:(stderr)' 'files:file:_files' ;;
	(*'|'*) compadd -- ${(s:|:)range} ;;
	esac
	return 0
}

# Behind the command that `slub run` is to run, as for that command; false: not there yet.
_slub_run()
{
	local -i i

	for ((i = 3; i < CURRENT; i++)); do
		case $words[i] in
		(--) ((i++)) ;;
		(-*) continue ;;
		esac
		words=("${(@)words[i,-1]}")
		((CURRENT -= i - 1))
		_normal
		return 0
	done
	return 1
}

_slub_commands()
{
	local -a found

	found=('--help:prints what there is' '--version:prints the version')
	found+=('help:explains a command' ${(f)"$(slub --help 2>/dev/null |
		sed -nE 's/^  ([a-z]+)  +([^ ].*)/\1:\2/p')"})
	_describe -t commands command found
}

_slub()
{
	local command option
	local -a found plain valued

	if ((CURRENT == 2)) || [[ $words[2] == help ]]; then
		_slub_commands
		return
	fi
	command=$words[2]
	[[ $command == run ]] && _slub_run && return
	if [[ $PREFIX == --*=* ]]; then
		option=${PREFIX%%=*}
		compset -P 1 '*='
	else
		option=$words[CURRENT-1]
	fi
	_slub_value $command $option && return
	if [[ $PREFIX == -* ]]; then
		found=(${(f)"$(_slub_options $command)"})
		plain=(${found:#*=:*})
		valued=(${(M)found:#*=:*})
		_describe -t options option plain
		_describe -t options option valued -S ''
		return
	fi
	case $command in
	(run) _command_names -e ;;
	(doctor) _alternative 'processes:process:_slub_pids' 'commands:program:_command_names -e' ;;
	(*) _alternative 'processes:process:_slub_pids' 'files:file:_files' ;;
	esac
}

_slub "$@"
