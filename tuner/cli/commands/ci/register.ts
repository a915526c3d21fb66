import type { Command } from 'commander'
import { createStoreOption } from '../command-options.ts'
import type { CiFlags } from './run.ts'

/** `tune ci`: fails a build if serving became more expensive. */
export function registerCi(program: Command): void {
  program
    .command('ci')
    .description(
      'compare an experiment with a baseline and fail the build if serving became more expensive',
    )
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .option('--baseline <id or file>', 'experiment in the store, or a saved recommendation.json')
    .option('--max-regression <share>', 'maximum cost increase', '5%')
    .option('--save-baseline <file>', 'save the recommendation as the baseline for later builds')
    .option('--junit <file>', 'write the checks as JUnit XML')
    .addOption(createStoreOption())
    .option('--prices <file>', 'another price book (YAML), for experiments of the store')
    .option('--json', 'print the checks as JSON')
    .addHelpText(
      'after',
      `
Runs no trials. Run tune first:
  tune -f experiment.yaml --seed 1
  tune ci --baseline baseline.json --max-regression 5% --junit tune.xml

A build fails only on a regression that the intervals of both measurements do not explain (95 % confidence); a possible one is reported.
On GitHub the checks are annotations and a table in the step summary.
Exit codes: 0 nothing failed; 3 nothing meets the SLO; 4 not confirmed; 6 more expensive than allowed.`,
    )
    .action(async (id: string | undefined, flags: CiFlags) => {
      const { ci } = await import('./run.ts')
      process.exitCode = await ci(id, flags)
    })
}
