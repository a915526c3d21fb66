/**
 * Prometheus, as Debian packages it: what is sent to it or asked of it is held against the program
 * itself.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { freePort } from '../../profiler/testing/free-port.ts'

export const prometheusInstalled = ['prometheus', 'promtool'].every(
  (program) => spawnSync(program, ['--version']).status === 0,
)

/** From Prometheus 3 on; Debian 12 packages 2.42. */
export const prometheusTakesOtlp =
  prometheusInstalled &&
  spawnSync('prometheus', ['--help'], { encoding: 'utf8' }).stdout.includes(
    'web.enable-otlp-receiver',
  )

export interface PrometheusItself {
  readonly url: string
  end(): Promise<void>
}

/**
 * Starts it on a free port, its data in `data/` of the folder; resolves once it answers. It scrapes
 * nothing.
 */
export async function startPrometheus(
  folder: string,
  flags: readonly string[] = [],
): Promise<PrometheusItself> {
  writeFileSync(join(folder, 'prometheus.yml'), 'scrape_configs: []\n')
  const port = await freePort()
  const own = [
    '--config.file=prometheus.yml',
    '--storage.tsdb.path=data',
    `--web.listen-address=127.0.0.1:${port}`,
  ]
  const child = spawn('prometheus', [...own, ...flags], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  for await (const line of createInterface({ input: child.stderr }))
    if (line.includes('ready to receive web requests')) break
  child.stderr.resume()
  return {
    url: `http://127.0.0.1:${port}`,
    async end() {
      if (child.exitCode !== null) return
      const exited = once(child, 'exit')
      child.kill()
      await exited
    },
  }
}
