pub struct Price { pub cents: u64 }

#[derive(Default)]
pub struct Rounding;

impl Rounding {
    pub fn apply(&self, cents: u64) -> Price {
        Price { cents }
    }
}

pub fn price_of(name: &str) -> Price {
    match name { "tea" => Price { cents: 100 }, _ => Price { cents: 0 } }
}
