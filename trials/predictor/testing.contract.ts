/** For tests: a predictor in this process, on a free port. */
import { onTestFinished } from 'vitest'
import { startPredictor } from './predictor.ts'
import type { RunningPredictor } from './running-predictor.ts'
import { readSettings, type Settings } from './settings.ts'

/** Settings of an emulated bert-tiny on any free port, with others as environment variables. */
export const testSettings = (env: Record<string, string>): Settings =>
  readSettings([], { PORT: '0', ENGINE: 'emulated', GPU: 'T4', MODEL: 'bert-tiny', ...env })!

/** Starts a predictor for one test; stopped when the test ends. */
export async function startForTest(env: Record<string, string>): Promise<RunningPredictor> {
  const predictor = await startPredictor(testSettings(env))
  onTestFinished(() => predictor.stop())
  return predictor
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: a test looks at whatever JSON came
  readonly json: any
}

export async function post(
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const answer = await fetch(url, {
    method: 'POST',
    body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...headers },
  })
  return { status: answer.status, headers: answer.headers, json: await answer.json() }
}

export async function get(url: string): Promise<Answer> {
  const answer = await fetch(url)
  return { status: answer.status, headers: answer.headers, json: await answer.json() }
}

/** Value of a metric line that starts with `name`, its labels ignored. */
export async function metric(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1])
}
