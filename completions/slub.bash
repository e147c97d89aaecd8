# SPDX-License-Identifier: MIT
# Completion of the slub command for bash.  What there is, is asked of the command itself.

_slub_pids()
{
	(cd /proc && printf '%s ' [0-9]*)
}

# The long options of a command, as its help names them.
_slub_options()
{
	slub "$1" --help 2>/dev/null | grep -oE -- '  (-[A-Za-z0-9], )?--[a-z0-9][a-z0-9_-]*\[?=?' |
		sed 's/^.*--/--/; s/\[=/=/; s/\[//'
	[[ $1 == run ]] || return
	echo --
	slub options --all 2>/dev/null | awk 'NR > 1 {
		sub("SLUB_", "", $1)
		print "--" tolower($1) ($3 == "0|1" ? "" : "=") }'
}

# What an option may be: of `slub run` by the range that `slub options` prints.
_slub_value()
{
	local command=$1 option=$2 word=$3 range

	case $option in
	-p|--process) COMPREPLY=($(compgen -W "$(_slub_pids)" -f -- "$word")); return ;;
	--color) COMPREPLY=($(compgen -W "always never auto" -- "$word")); return ;;
	--sort) COMPREPLY=($(compgen -W "a b c g k l n o p s u v w" -- "$word")); return ;;
	--textfile|--output) COMPREPLY=($(compgen -f -- "$word")); return ;;
	-N|--lines|--watch|--delay|--columns|--seconds|--bytes) return ;;
	--timeout|--wake-after|--node) return ;;
	esac
	[[ $command == run && $option == --* ]] || return 1
	range=$(slub options --all 2>/dev/null | awk -v name="$option" '
		"--" tolower(substr($1, 6)) == name { print $3 }')
	case $range in
	""|"0|1") return 1 ;;
	FILE) COMPREPLY=($(compgen -W stderr -f -- "$word")) ;;
	*\|*) COMPREPLY=($(compgen -W "${range//|/ }" -- "$word")) ;;
	esac
}

# Behind the command that `slub run` is to run, as for that command; false: not there yet.
_slub_run()
{
	local word=$1 i

	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--) ((++i < COMP_CWORD)) || break ;;
		-*|=) continue ;;
		*) [[ ${COMP_WORDS[i - 1]} == "=" ]] && continue ;;
		esac
		if declare -F _command_offset >/dev/null; then
			_command_offset "$i"
		else
			COMPREPLY=($(compgen -f -- "$word"))
		fi
		return 0
	done
	return 1
}

_slub()
{
	local word=$2 option=$3 command

	COMPREPLY=()
	if ((COMP_CWORD == 1)) || [[ ${COMP_WORDS[1]} == help ]]; then
		COMPREPLY=($(compgen -W "help --help --version $(slub --help 2>/dev/null |
			sed -nE 's/^  ([a-z]+) .*/\1/p')" -- "$word"))
		return
	fi
	command=${COMP_WORDS[1]}
	[[ $command == run ]] && _slub_run "$word" && return
	# bash splits --huge=b into three words at the equals sign.
	[[ $word == "=" ]] && word=
	[[ $option == "=" ]] && option=${COMP_WORDS[COMP_CWORD - 2]}
	_slub_value "$command" "$option" "$word" && return
	if [[ $word == -* ]]; then
		COMPREPLY=($(compgen -W "$(_slub_options "$command")" -- "$word"))
		[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
		return
	fi
	case $command in
	run) COMPREPLY=($(compgen -c -- "$word")) ;;
	doctor) COMPREPLY=($(compgen -W "$(_slub_pids)" -c -- "$word")) ;;
	*) COMPREPLY=($(compgen -W "$(_slub_pids)" -f -- "$word")) ;;
	esac
	return 0
}

complete -F _slub slub
