/** Asks questions on a terminal; without a terminal, every answer is empty. */
import { createInterface } from 'node:readline/promises'

export interface Prompt {
  /**
   * The trimmed answer; '' without a terminal or without input.
   * @throws the signal's reason
   */
  say(question: string): Promise<string>
  close(): void
}

/**
 * @param interrupt called on Ctrl-C, because the terminal sends no signal while a line is read.
 * After Ctrl-D no more questions are asked.
 */
export function createPrompt(wanted: boolean, signal: AbortSignal, interrupt: () => void): Prompt {
  if (!wanted || !process.stdin.isTTY || !process.stderr.isTTY)
    return { say: async () => '', close: () => {} }
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const ended = new AbortController()
  lines.on('SIGINT', interrupt)
  lines.on('close', () => ended.abort())
  const say = async (question: string): Promise<string> => {
    signal.throwIfAborted()
    if (ended.signal.aborted) return ''
    try {
      return (
        await lines.question(`${question}: `, { signal: AbortSignal.any([signal, ended.signal]) })
      ).trim()
    } catch (error) {
      process.stderr.write('\n')
      signal.throwIfAborted()
      if (ended.signal.aborted) return ''
      throw error
    }
  }
  return { say, close: () => lines.close() }
}
