/** `tune config`: prints every effective value and its origin. */
import { inspectMachine } from '../../../../trials/machine/machine-facts.ts'
import { redactSecrets } from '../../../../trials/secrets.ts'
import { describeExperiment } from '../../../config/describe-experiment.ts'
import type { FlagValues } from '../../../config/flags/flags.ts'
import { createHostContext } from '../../../config/host-context.ts'
import { loadExperiment } from '../../../config/load-experiment.ts'
import { createExperimentJsonSchema } from '../../../config/schema/experiment-schema.ts'
import { formatTable } from '../../render/columns.ts'
import { formatRequestExample } from './request-example.ts'

/** Maximum length of a cell on the terminal; --json prints full values. */
const maxCellLength = 200
const truncateCell = (text: string): string =>
  text.length > maxCellLength
    ? `${text.slice(0, maxCellLength)}… (${text.length} characters)`
    : text

export async function showConfig(
  flags: FlagValues & { json?: boolean; schema?: boolean },
): Promise<void> {
  if (flags.schema) {
    process.stdout.write(`${JSON.stringify(createExperimentJsonSchema(), null, 2)}\n`)
    return
  }
  const host = createHostContext(await inspectMachine())
  const experiment = loadExperiment({
    file: flags.file as string | undefined,
    flags,
    environment: process.env,
    ...host,
  })
  for (const notice of experiment.notices) process.stderr.write(`${notice}\n`)
  const rows = describeExperiment(experiment)
  const text = flags.json
    ? JSON.stringify(rows, null, 2)
    : formatTable(rows.map((r) => [r.path, r.value, r.origin].map(truncateCell))).join('\n')
  process.stdout.write(`${text}\n`)
  if (flags.json) return
  const example = await formatRequestExample(experiment)
  if (example !== undefined) process.stdout.write(`\n${redactSecrets(example)}\n`)
}
