/** Questions on a terminal; without one, every answer is empty. */
import { createInterface } from 'node:readline/promises'

export interface Asker {
  /** The answer without its spaces; '' where there is nobody to ask, or nothing was said. */
  say(question: string): Promise<string>
  close(): void
}

export function asker(wanted: boolean): Asker {
  if (!wanted || !process.stdin.isTTY || !process.stderr.isTTY) return { say: async () => '', close: () => {} }
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  return { say: async (question) => (await lines.question(`${question}: `)).trim(), close: () => lines.close() }
}
