# SPDX-License-Identifier: MIT
# Completion of the slub command for bash.

_slub_run()
{
	local word=$2 i

	# Behind the command's name, complete as for that command.
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
		return
	done

	# bash splits --huge=b into three words at the equals sign.
	local option=$3
	[[ $word == "=" ]] && word=
	[[ $option == "=" ]] && option=${COMP_WORDS[COMP_CWORD - 2]}
	case $option in
	--fastpath) COMPREPLY=($(compgen -W "auto rseq thread tid lock" -- "$word")); return ;;
	--huge) COMPREPLY=($(compgen -W "never block always" -- "$word")); return ;;
	--slabinfo) COMPREPLY=($(compgen -W stderr -f -- "$word")); return ;;
	--retain|--reserve) return ;;
	esac

	if [[ $word == -* ]]; then
		COMPREPLY=($(compgen -W "--fastpath= --huge= --retain= --reserve= \
			--slabinfo= --verbose --force --help --" -- "$word"))
		[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
	else
		COMPREPLY=($(compgen -c -- "$word"))
	fi
}

_slub()
{
	local word=$2

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		COMPREPLY=($(compgen -W "run check help --help --version" -- "$word"))
		return
	fi
	case ${COMP_WORDS[1]} in
	run) _slub_run "$@" ;;
	check)
		if [[ $word == -* ]]; then
			COMPREPLY=($(compgen -W "--json --quiet --help" -- "$word"))
		else
			COMPREPLY=($(compgen -W "$(cd /proc && printf '%s ' [0-9]*)" -- "$word"))
		fi
		;;
	help) COMPREPLY=($(compgen -W "run check" -- "$word")) ;;
	esac
}

complete -F _slub slub
