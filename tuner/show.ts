/** `tune show`: a stored experiment seen again, under its own or another SLO, demand or price book. Runs nothing. */
import { recommendationJson } from '../reports/documents.ts'
import { recommend } from '../reports/recommendation.ts'
import { inspectMachine } from '../trials/machine/machine.ts'
import { loadExperiment as findExperiment, openExisting } from './commands/open-existing.ts'
import type { ShowOptions } from './commands/show.ts'
import { exitCodes } from './exit-codes.ts'
import { experimentFromDocument } from './experiment/load.ts'
import type { ExperimentDocument } from './experiment/types.ts'
import { surroundings } from './machine.ts'
import { noticesOf } from './notices.ts'
import { label, loadPriceBook, problemOf } from './problem.ts'
import { styleOf } from './render/glyphs.ts'
import { resultLines } from './render/results.ts'
import { trialLine } from './render/trial-line.ts'

export async function show(id: string | undefined, options: ShowOptions): Promise<number> {
  const store = await openExisting(options.db)
  try {
    const { experiment: record, trials } = await findExperiment(store, id)
    const { slo, rps, headroom, prices } = options
    const machine = await inspectMachine()
    const experiment = experimentFromDocument(record.spec as ExperimentDocument, record.id, surroundings(machine), {
      slo,
      rps,
      headroom,
      prices,
    })
    const problem = problemOf(experiment, await loadPriceBook(experiment.pricesPath))
    const recommendation = recommend({
      experimentId: record.id,
      provenance: record.provenance,
      seed: record.seed,
      trials,
      notices: noticesOf(experiment, record.provenance),
      slo: experiment.slo,
      objective: experiment.objective,
      pricePerHour: problem.pricePerHour,
      label,
    })
    if (options.json) process.stdout.write(recommendationJson(recommendation))
    else {
      const style = styleOf(process.stdout, process.env)
      const lines = trials.map((trial) =>
        trialLine({ trial, label: label(trial.configuration), pricePerHour: problem.pricePerHour(trial.configuration) }, style),
      )
      const head = `${record.id}: ${record.name}, ${record.state}, ${record.provenance}, ${record.createdAt.slice(0, 16).replace('T', ' ')}`
      process.stdout.write(`${[head, ...lines.map((l) => `${l.mark} ${l.text}`), ...resultLines(recommendation, [], style)].join('\n')}\n`)
    }
    return recommendation.best ? exitCodes.ok : exitCodes.sloUnmet
  } finally {
    await store.close()
  }
}
