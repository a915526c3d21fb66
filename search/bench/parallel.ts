import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/**
 * Runs jobs in worker processes. The module answers each message with one result, which goes to
 * `done`.
 */
export async function runParallel<Job, Answer>(
  module: URL,
  args: readonly string[],
  jobs: readonly Job[],
  workers: number,
  done: (job: Job, answer: Answer) => void,
): Promise<void> {
  let next = 0
  const work = () =>
    new Promise<void>((resolve, reject) => {
      const child = fork(fileURLToPath(module), args, {
        execArgv: ['--import', 'tsx'],
        serialization: 'advanced',
      })
      let at = -1
      const send = () => {
        at = next++
        if (at < jobs.length) child.send(jobs[at] as object)
        else child.disconnect()
      }
      child.on('message', (answer) => {
        done(jobs[at]!, answer as Answer)
        send()
      })
      child.on('error', reject)
      child.on('exit', (code) =>
        code === 0
          ? resolve()
          : reject(new Error(`a worker ended with ${code} at ${JSON.stringify(jobs[at])}`)),
      )
      send()
    })
  await Promise.all(Array.from({ length: Math.max(1, Math.min(workers, jobs.length)) }, work))
}
