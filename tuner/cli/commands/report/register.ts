import type { Command } from 'commander'
import { createStoreOption } from '../command-options.ts'
import type { ReportFlags } from './run.ts'

/** `tune report`: writes a self-contained report. */
export function registerReport(program: Command): void {
  program
    .command('report')
    .description(
      'write one self-contained report (.html, .md, .csv, .json), or the latencies of every load step as an HDR histogram log (.hlog)',
    )
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .option(
      '--out <file>',
      'output file; its extension sets the format (default: tune-results/<experiment>/report.html)',
    )
    .option('--slo <slo>', "rank by another SLO, e.g. 30ms or 'p95<80ms'")
    .option('--rps <rate>', 'rank by the price of serving this demand, requests per second')
    .option('--headroom <share>', 'share of the capacity kept free, e.g. 20%')
    .option('--min-quality <number>', 'exclude model variants below this quality')
    .option('--prices <file>', 'another price book (YAML)')
    .addOption(createStoreOption())
    .addHelpText(
      'after',
      '\nExamples:\n  tune report --out bert.html\n  tune report bert-7f3a --slo 30ms --out bert-30ms.md',
    )
    .action(async (id: string | undefined, flags: ReportFlags) => {
      const { report } = await import('./run.ts')
      process.exitCode = await report(id, flags)
    })
}
