import type { Command } from 'commander'
import { createStoreOption } from '../command-options.ts'
import type { DashboardFlags } from './run.ts'

/** `tune dashboard`: shows experiments in the browser, live while they run. */
export function registerDashboard(program: Command): void {
  program
    .command('dashboard')
    .description(
      'open experiments in the browser: verdict, Pareto front with a draggable SLO, trials; live during a run',
    )
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .addOption(
      createStoreOption(
        'trial store (SQLite); the page can only change notes and tags, archive and delete',
      ),
    )
    .option('--port <n>', 'port on 127.0.0.1; 0: any free port', '4455')
    .option('--read-only', 'allow no changes: no notes, tags, archiving or deleting')
    .action(async (id: string | undefined, flags: DashboardFlags) => {
      const { dashboard } = await import('./run.ts')
      process.exitCode = await dashboard(id, flags)
    })
}
