/** Everything that a run is sent to. */
import { steadyNowMs } from '../../trials/clock.ts'
import { mapTexts, redactSecrets } from '../../trials/secrets.ts'
import type { OutputKind } from '../config/names.ts'
import type { OutputTarget } from '../config/output-target.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import type { TuneEvent } from '../loop/events.ts'
import type { Output } from './output.ts'

type OpenOutput = (
  target: OutputTarget,
  warn: (message: string) => void,
  now: () => number,
) => Output

const openers: Readonly<Record<OutputKind, () => Promise<OpenOutput>>> = {
  mlflow: async () => (await import('./mlflow.ts')).mlflow,
  otlp: async () => (await import('./otlp.ts')).otlp,
}

/**
 * The outputs of a run as one; secrets that are known stand in no text that is sent. Nothing is
 * sent before the first event, and a receiver that is not to be had neither ends the run nor
 * changes what it comes to.
 * @param warn told of what is lost
 * @throws UserError for a URL that is none once its references are filled in
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
    targets.map(async (target) => (await openers[target.kind]())(target, warn, steadyNowMs)),
  )
  return {
    handle: (event: TuneEvent) => {
      if (outputs.length === 0) return
      const told = mapTexts(event, redactSecrets)
      for (const output of outputs) output.handle(told)
    },
    close: async () => {
      await Promise.all(outputs.map((output) => output.close()))
    },
  }
}
