//! `mainstay completion`: scripts for shells (MS-CLI-06). They ask this program for completions, so that names of the cluster are offered, too.

use clap::ValueEnum;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mainstay completion bash > ~/.local/share/bash-completion/completions/mainstay
  mainstay completion zsh > ~/.zfunc/_mainstay
  mainstay completion fish > ~/.config/fish/completions/mainstay.fish
  mainstay completion powershell >> $PROFILE

Names of extensions, packages, catalogs, objects of OLM classic, namespaces and contexts are those of the cluster that the command line
chooses.")]
pub struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    #[value(name = "powershell")]
    Pwsh,
}

/// Prints the completion script.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    output::print(match arguments.shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        Shell::Pwsh => POWERSHELL,
    })
}

const BASH: &str = r#"# bash completion for mainstay
_mainstay() {
    local IFS=$'\n'
    COMPREPLY=($("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then
        compopt -o default 2>/dev/null
    fi
}
complete -F _mainstay mainstay
"#;

const ZSH: &str = r#"#compdef mainstay
_mainstay() {
    local -a lines shown
    local line
    lines=("${(@f)$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    for line in $lines; do
        [[ -n $line ]] && shown+=("${${line//:/\\:}/$'\t'/:}")
    done
    if (( ${#shown} )); then
        _describe 'mainstay' shown
    else
        _files
    fi
}
if [[ "${funcstack[1]}" == "_mainstay" ]]; then
    _mainstay "$@"
else
    compdef _mainstay mainstay
fi
"#;

const FISH: &str = r"# fish completion for mainstay
function __mainstay_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    $words[1] __complete -- $words[2..-1] $current 2>/dev/null
end
complete -c mainstay -a '(__mainstay_complete)'
";

const POWERSHELL: &str = r#"# PowerShell completion for mainstay
Register-ArgumentCompleter -Native -CommandName mainstay -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
    $flags = @()
    if ($wordToComplete -eq '') { $flags = @('--new-word') }
    & mainstay __complete @flags -- @words 2>$null | ForEach-Object {
        $name, $about = $_ -split "`t", 2
        if (-not $about) { $about = $name }
        [System.Management.Automation.CompletionResult]::new($name, $name, 'ParameterValue', $about)
    }
}
"#;
