/** Requests to the HTTP API of Triton. */
import { readAnswer } from '../../../profiler/bounded-reader.ts'
import { LaunchError } from '../../types.ts'
import { readErrorMessage } from '../model-loading.ts'

/** Triton refused a request; the message is its own. */
export class TritonRefusal extends Error {}

export const requestTriton = async (
  url: string,
  path: string,
  signal: AbortSignal,
  body?: unknown,
): Promise<unknown> => {
  const response = await fetch(new URL(path, url), {
    signal,
    ...(body !== undefined && {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    }),
  }).catch((error: unknown) => {
    signal.throwIfAborted()
    throw new LaunchError(
      `Triton does not answer ${path}: ${error instanceof Error ? error.message : String(error)}`,
      'see its log for the reason',
    )
  })
  const text = await readAnswer(response.body)
  if (!response.ok)
    throw new TritonRefusal(
      `Triton refused ${path} (status ${response.status}): ${readErrorMessage(text)}`,
    )
  return text === '' ? undefined : JSON.parse(text)
}
