/** `tune config`: every effective value and where it came from. */
import { inspectMachine } from '../../../trials/machine/machine-facts.ts'
import { redactSecrets } from '../../../trials/secrets.ts'
import { describeExperiment } from '../../config/describe-experiment.ts'
import type { FlagValues } from '../../config/flags/flags.ts'
import { loadExperiment } from '../../config/load-experiment.ts'
import { experimentJsonSchema } from '../../config/schema/experiment-schema.ts'
import { surroundings } from '../../config/surroundings.ts'
import { table } from '../../render/columns.ts'
import { requestExample } from './request-example.ts'

/** A cell as a screen takes it; --json has them whole. */
const mostShown = 200
const cut = (text: string): string =>
  text.length > mostShown ? `${text.slice(0, mostShown)}… (${text.length} characters)` : text

export async function showConfig(
  flags: FlagValues & { json?: boolean; schema?: boolean },
): Promise<void> {
  if (flags.schema) {
    process.stdout.write(`${JSON.stringify(experimentJsonSchema(), null, 2)}\n`)
    return
  }
  const around = surroundings(await inspectMachine())
  const experiment = loadExperiment({
    file: flags.file as string | undefined,
    flags,
    environment: process.env,
    ...around,
  })
  for (const notice of experiment.notices) process.stderr.write(`${notice}\n`)
  const rows = describeExperiment(experiment)
  const text = flags.json
    ? JSON.stringify(rows, null, 2)
    : table(rows.map((r) => [r.path, r.value, r.origin].map(cut))).join('\n')
  process.stdout.write(`${text}\n`)
  if (flags.json) return
  const example = await requestExample(experiment)
  if (example !== undefined) process.stdout.write(`\n${redactSecrets(example)}\n`)
}
