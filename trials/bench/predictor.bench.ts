/**
 * What a request costs the built-in predictor. `npm run bench:predictor`: start-up, accuracy of the
 * emulated device's time, throughput, CPU time of a request. `-- inference [MODEL ...] [--threads N]
 * [--batch N]`: milliseconds of a batch in the tfjs engine. `-- cpu` (Linux): CPU time of a request
 * in each thread, from the kernel's accounts.
 */

import { printThreadTimes } from './cpu-time.ts'
import { printEngineTimes } from './engine-time.ts'
import { printServedRequests } from './served-requests.ts'

const [part, ...args] = process.argv.slice(2)
if (part === undefined) await printServedRequests()
else if (part === 'inference') await printEngineTimes(args)
else if (part === 'cpu') await printThreadTimes()
else throw new Error(`'${part}' is not known: inference, cpu, or nothing`)
