//! What each way to launch a graph costs on a device, measured with a small one.

use keyprint_codegen::cuda::{CudaCode, PROBE_SLOTS};

use super::stop::unnoticed;
use super::way::{Asked, Cost, Costs, Way};
use crate::device::Device;
use crate::error::CudaError;
use crate::memory::DeviceMemory;
use crate::program::{Outcome, Program};
use crate::stream::{Event, Stream};

/// Turns that are timed together, of few elements and of many.
const TURNS: u32 = 48;
const LONG_TURNS: u32 = 4;

/// Elements of small tasks: one for each thread of a few warps. Of large ones: four times as many, until turns take this
/// many times as long, or there are the most.
const FEW: i64 = 64;
const MANY: i64 = 1 << 12;
const MOST: i64 = 1 << 23;
const CLEARLY: f64 = 6.0;

/// Times of the same that differ by more than this, or make no sense, were disturbed: by other work, or by a device that
/// was asleep. How often that is tried again.
const DISTURBED: f64 = 1.5;
const ATTEMPTS: u32 = 4;

/// Nanoseconds that everything takes at least.
const LEAST: f64 = 1.0;

/// How often each is timed: the shortest time is the least disturbed.
const REPEATS: u32 = 5;

/// Times the ways with a graph that was compiled: `code` and `conditions` are of `probe`.
///
/// # Errors
///
/// If the device fails, has other work at the same time, or waiting was called off.
pub fn measure(
    device: &'static Device,
    probe: &CudaCode,
    code: &[u8],
    conditions: &[u8],
) -> Result<Costs, CudaError> {
    unnoticed(|| measure_all(device, probe, code, conditions))
}

fn measure_all(
    device: &'static Device,
    probe: &CudaCode,
    code: &[u8],
    conditions: &[u8],
) -> Result<Costs, CudaError> {
    let mut costs = Costs::default();
    for way in Way::ALL {
        let asked = Some(Asked::Only(way));
        let program = Program::load(device, "probe", code, Some(conditions), probe.plan.clone(), asked)?;
        let counter = DeviceMemory::zeroed(device, 4, Stream::OWN)?;
        let runs = Runs { program: &program, counter: &counter };
        if let Some(cost) = runs.cost(way)? {
            costs.0[way as usize] = cost;
        }
    }
    Ok(costs)
}

struct Runs<'p> {
    program: &'p Program,
    counter: &'p DeviceMemory,
}

impl Runs<'_> {
    /// What a way costs; nothing if there is no such way here.
    fn cost(&self, way: Way) -> Result<Option<Cost>, CudaError> {
        let few = self.memory(FEW)?;
        self.time(&few, FEW, 1)?;
        if self.program.last_choice().is_none_or(|choice| choice.way != way) {
            return Ok(None);
        }
        let mut seen = (0.0, 0.0);
        for _ in 0..ATTEMPTS {
            let (cost, turns) = self.attempt(&few)?;
            if turns.0.max(turns.1) <= turns.0.min(turns.1) * DISTURBED && turns.0.min(turns.1) > LEAST {
                return Ok(Some(cost));
            }
            seen = turns;
        }
        Err(CudaError::Other(format!(
            "the device has other work: a turn took {:.0} ns and {:.0} ns",
            seen.0, seen.1
        )))
    }

    /// Times a way; also returns the nanoseconds of a short turn at the beginning and at the end.
    fn attempt(&self, few: &DeviceMemory) -> Result<(Cost, (f64, f64)), CudaError> {
        let once = self.time(few, FEW, 1)?;
        let turn = self.turn(few, FEW, TURNS, once)?;
        let (mut count, mut longer) = (MANY, turn);
        while longer < turn * CLEARLY && count < MOST {
            count *= 4;
            let many = self.memory(count)?;
            self.time(&many, count, 1)?;
            let once = self.time(&many, count, 1)?;
            longer = self.turn(&many, count, LONG_TURNS, once)?;
        }
        let once_again = self.time(few, FEW, 1)?;
        let again = self.turn(few, FEW, TURNS, once_again)?;
        let plan = &self.program.plan;
        let work: u64 = plan.tasks.iter().filter(|task| !task.counts.is_empty()).map(|task| task.cost).sum();
        let cost = Cost {
            launch: (once.min(once_again) - turn).max(LEAST),
            task: turn / plan.tasks.len() as f64,
            work: (longer - turn).max(0.0) / (work as f64 * count as f64),
        };
        Ok((cost, (turn, again)))
    }

    fn memory(&self, count: i64) -> Result<DeviceMemory, CudaError> {
        DeviceMemory::zeroed(self.program.device, count as usize * 4, Stream::OWN)
    }

    /// The nanoseconds of a turn.
    fn turn(&self, elements: &DeviceMemory, count: i64, turns: u32, once: f64) -> Result<f64, CudaError> {
        let all = self.time(elements, count, turns + 1)?;
        Ok(((all - once) / f64::from(turns)).max(LEAST))
    }

    /// The nanoseconds of a launch with so many turns.
    fn time(&self, elements: &DeviceMemory, count: i64, turns: u32) -> Result<f64, CudaError> {
        let device = self.program.device;
        let mut shortest = f64::MAX;
        for _ in 0..REPEATS {
            // SAFETY: there are four bytes at both.
            unsafe { device.write(self.counter.address(), (&raw const turns).cast(), 4)? };
            let mut slots = vec![0u64; self.program.plan.all_slots()];
            let given = [self.counter.address(), elements.address(), count as u64];
            for (at, value) in PROBE_SLOTS.into_iter().zip(given) {
                slots[at] = value;
            }
            let begun = Event::timed(device, Stream::OWN)?;
            // SAFETY: the slots are those of the graph, and its arrays are here until it is done.
            let outcome = unsafe { self.program.launch(&mut slots, &mut [], Stream::OWN, || Box::new(()))? };
            let ended = Event::timed(device, Stream::OWN)?;
            device.wait_for(Stream::OWN)?;
            shortest = shortest.min(f64::from(ended.since(&begun)?) * 1e6);
            if !matches!(outcome, Outcome::Done) {
                return Err(CudaError::Other("a graph that is timed was refused".to_owned()));
            }
        }
        Ok(shortest)
    }
}
