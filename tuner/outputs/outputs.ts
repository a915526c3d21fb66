/** Opens the outputs of a run. */
import { getSteadyNowMs } from '../../trials/clock.ts'
import { mapTexts, redactSecrets } from '../../trials/secrets.ts'
import type { OutputKind } from '../config/names.ts'
import type { OutputTarget } from '../config/values/output-target.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import type { TuneEvent } from '../loop/events.ts'
import type { Output } from './output.ts'

type OpenOutput = (
  target: OutputTarget,
  warn: (message: string) => void,
  now: () => number,
) => Output

const outputLoaders: Readonly<Record<OutputKind, () => Promise<OpenOutput>>> = {
  mlflow: async () => (await import('./mlflow.ts')).createMlflowOutput,
  otlp: async () => (await import('./otlp.ts')).createOtlpOutput,
}

/**
 * Opens all outputs of a run as one. Known secrets are redacted. Nothing is sent before the first
 * event, and an unreachable receiver affects neither the run nor its result.
 * @param warn called for lost messages
 * @throws UserError for an invalid URL
 */
export async function openOutputs(
  targets: readonly OutputTarget[],
  warn: (message: string) => void,
): Promise<Output> {
  for (const { kind, url } of targets)
    if (!/^https?:/i.test(url) || !URL.canParse(url))
      throw new UserError(
        `send.${kind}: '${redactSecrets(url)}' is not an http URL`,
        'write http://HOST:PORT/PATH',
        exitCodes.usage,
      )
  const outputs = await Promise.all(
    targets.map(async (target) =>
      (await outputLoaders[target.kind]())(target, warn, getSteadyNowMs),
    ),
  )
  return {
    handle: (event: TuneEvent) => {
      if (outputs.length === 0) return
      const redactedEvent = mapTexts(event, redactSecrets)
      for (const output of outputs) output.handle(redactedEvent)
    },
    close: async () => {
      await Promise.all(outputs.map((output) => output.close()))
    },
  }
}
